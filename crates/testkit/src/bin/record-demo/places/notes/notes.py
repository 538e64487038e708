"""Keep short notes in one text file, a line each."""

import argparse
from datetime import date
from pathlib import Path

DEFAULT_FILE = Path.home() / "notes.txt"


def add(path, text, today=None):
    """Append a note and return the line as written."""
    line = f"{today or date.today()} {text.strip()}"
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    return line


def search(path, words):
    """Yield the notes that contain all of the words."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if all(word.lower() in line.lower() for word in words):
            yield line


def main(argv=None):
    parser = argparse.ArgumentParser(prog="notes", description=__doc__)
    parser.add_argument("--file", type=Path, default=DEFAULT_FILE)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("add").add_argument("text")
    commands.add_parser("search").add_argument("words", nargs="+")
    args = parser.parse_args(argv)
    if args.command == "add":
        print(add(args.file, args.text))
    else:
        for line in search(args.file, args.words):
            print(line)


if __name__ == "__main__":
    main()
