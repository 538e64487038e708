import tempfile
import unittest
from pathlib import Path

import notes


class NotesTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name) / "notes.txt"

    def found(self, *words):
        return list(notes.search(self.path, words))

    def test_add_puts_the_date_first(self):
        self.assertEqual(notes.add(self.path, " Buy tea ", "2026-02-02"), "2026-02-02 Buy tea")

    def test_search_wants_all_words(self):
        notes.add(self.path, "Buy tea", "2026-02-02")
        notes.add(self.path, "Buy a mug", "2026-02-03")
        self.assertEqual(self.found("buy", "mug"), ["2026-02-03 Buy a mug"])


if __name__ == "__main__":
    unittest.main()
