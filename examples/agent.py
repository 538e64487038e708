#!/usr/bin/env python3
"""A coding agent in eighty lines: one tool, any chat-completions endpoint, and turns that are written through `annals append`.

    AGENT_URL=http://localhost:8080/v1 AGENT_MODEL=local/qwen examples/agent.py "How many files are here?" [ARGUMENTS OF append]

The session goes to your annals store. With `--home ~/.local/share/opencode`, OpenCode can continue it.
"""
import json, os, subprocess, sys, urllib.request

URL, MODEL = os.environ["AGENT_URL"], os.environ.get("AGENT_MODEL", "lab/lab-large")
COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOLS = [{"type": "function", "function": {"name": "bash", "description": "Runs a shell command.", "parameters": COMMAND}}]


class Annals:
    def __init__(self, arguments):
        command = ["annals", "append", "--quiet", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = 0

    def send(self, kind, **members):
        self.lines += 1
        print(json.dumps({"type": kind, **members}), file=self.process.stdin, flush=True)
        while not kind.endswith("-delta"):  # Pieces of text are stored within 100 ms, or with the next event.
            answer = json.loads(self.process.stdout.readline())
            if answer.get("line") == self.lines:  # It is on the disk, or was refused.
                return answer if "error" not in answer else sys.exit(answer["error"]["message"])


def stream(messages):
    """The pieces of an answer, as the model sends them."""
    body = {"model": MODEL.split("/", 1)[1], "messages": messages, "tools": TOOLS, "stream": True, "stream_options": {"include_usage": True}}
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ.get("AGENT_KEY", "none")}
    request = urllib.request.Request(URL + "/chat/completions", json.dumps(body).encode(), headers)
    for line in urllib.request.urlopen(request):
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])


def answer(annals, messages):
    """Writes one answer of the model while it comes. Gives the calls that it makes."""
    annals.send("answer-start")
    annals.send("step-start")
    text, calls, usage, reason = "", {}, {}, "stop"
    for piece in stream(messages):
        usage = piece.get("usage") or usage
        for choice in piece.get("choices", []):
            reason = (choice.get("finish_reason") or reason).replace("_", "-")
            if content := choice["delta"].get("content"):
                text or annals.send("text-start")
                annals.send("text-delta", delta=content)
                text += content
            for part in choice["delta"].get("tool_calls") or []:
                call = calls.setdefault(part["index"], {"id": part.get("id"), "type": "function", "function": {"name": "", "arguments": ""}})
                for name, value in part["function"].items():
                    call["function"][name] += value or ""
    text and annals.send("text-end")
    messages.append({"role": "assistant", "content": text, **({"tool_calls": list(calls.values())} if calls else {})})
    for call in calls.values():
        arguments = json.loads(call["function"]["arguments"])
        annals.send("tool-call", call=call["id"], tool=call["function"]["name"])
        annals.send("tool-run", call=call["id"], input=arguments)
        ran = subprocess.run(arguments["command"], shell=True, capture_output=True, text=True)
        output = ran.stdout + ran.stderr
        annals.send("tool-complete", call=call["id"], output=output, title=arguments["command"], metadata={"exit": ran.returncode})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
    annals.send("step-finish", reason=reason, tokens={"input": usage.get("prompt_tokens", 0), "output": usage.get("completion_tokens", 0)})
    annals.send("answer-finish")
    return calls


if __name__ == "__main__":
    prompt, arguments = sys.argv[1], sys.argv[2:]
    annals, messages = Annals(arguments), [{"role": "user", "content": prompt}]
    session = annals.send("session-create", title=prompt[:60])["session"]
    annals.send("turn-start", text=prompt, model=MODEL)
    while answer(annals, messages):
        pass
    annals.send("turn-finish")
    print(messages[-1]["content"], f"\n\n`annals show {session}` shows the session.")
    annals.process.stdin.close()
    sys.exit(annals.process.wait())
