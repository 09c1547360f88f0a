"""An MCP server in raw JSON-RPC lines, of the handshake era, that misbehaves as it is told: `raw.py [START ...]`.

It appends its process id to `pids` in the folder it is started in, so that a test can tell whether it is gone. What it
does when it is started comes from the arguments; what it does later comes from the tool that is called.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Message = dict[str, Any]

ANYTHING: Message = {"type": "object"}
TEXT: Message = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
STARTS = frozenset(sys.argv[1:])

tools: dict[str, Message] = {}
calls: dict[str, Callable[[Message], Message]] = {}


def write(line: str) -> None:
    """One line of output."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def send(**message: object) -> None:
    """One message of the protocol."""
    write(json.dumps({"jsonrpc": "2.0", **message}))


def for_ever() -> None:
    """Do nothing and never come back."""
    while True:
        time.sleep(3600)


def structured(value: object) -> Message:
    """A result with structured content."""
    return {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}


def tool(schema: Message = ANYTHING, **more: object) -> Callable[[Callable[[Message], Message]], None]:
    """Offer a function as a tool, its underscores as dashes."""

    def offer(function: Callable[[Message], Message]) -> None:
        name = function.__name__.replace("_", "-")
        tools[name] = {"name": name, "description": function.__doc__, "inputSchema": schema, **more}
        calls[name] = function

    return offer


@tool(TEXT)
def echo(arguments: Message) -> Message:
    """The arguments."""
    return structured(arguments)


@tool()
def meta(given: Message) -> Message:
    """What came beside the arguments."""
    return structured({"meta": given})


@tool()
def process(_: Message) -> Message:
    """The ids of this process and of its parent."""
    return structured({"pid": os.getpid(), "parent": os.getppid()})


@tool()
def environment(_: Message) -> Message:
    """Every environment variable."""
    return structured(dict(os.environ))


@tool()
def text_only(_: Message) -> Message:
    """A result without structured content."""
    return {"content": [{"type": "text", "text": "only text"}]}


@tool()
def fail(_: Message) -> Message:
    """An error of the tool."""
    return {"content": [{"type": "text", "text": "there is no such note"}], "isError": True}


@tool()
def fail_silently(_: Message) -> Message:
    """An error of the tool, without words."""
    return {"content": [], "isError": True}


@tool()
def fail_in_colour(_: Message) -> Message:
    """An error of the tool that would paint a terminal red."""
    return {"content": [{"type": "text", "text": "\x1b[31mred\x1b[0m"}], "isError": True}


@tool()
def many_lists(_: Message) -> Message:
    """Five million empty lists."""
    write('{"jsonrpc": "2.0", "id": 1, "result": [' + "[]," * 5_000_000 + "[]]}")
    return structured({})


@tool()
def a_list(_: Message) -> Message:
    """Structured content that is no object."""
    return structured([1, 2, 3])


@tool()
def nonsense(_: Message) -> Message:
    """No result of a tool call."""
    return {"content": "a text where a list belongs"}


@tool(outputSchema={"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]})
def promise_broken(_: Message) -> Message:
    """Structured content that its own schema refuses."""
    return structured({"count": "many"})


@tool(outputSchema={"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}})
def promise_endless(_: Message) -> Message:
    """A schema of results whose check takes for ever, where patterns go back over their steps."""
    return structured({"text": "a" * 64 + "!"})


@tool(outputSchema=ANYTHING)
def promise_forgotten(_: Message) -> Message:
    """A schema of results, and none."""
    return {"content": [{"type": "text", "text": "no structure"}]}


@tool()
def server_error(_: Message) -> Message:
    """An error of the protocol with a code that the SDK uses for a closed connection; see `answer`."""
    return {}


@tool()
def hang(_: Message) -> Message:
    """Never answer."""
    Path("hanging").touch()
    for_ever()
    return {}


@tool()
def die(_: Message) -> Message:
    """End in the middle of the call."""
    os._exit(1)


@tool()
def mute(_: Message) -> Message:
    """Close the output, and stay."""
    os.close(1)
    for_ever()
    return {}


@tool()
def answer_then_die(arguments: Message) -> Message:
    """Answer, and end before the next call."""
    send(id=arguments["id"], result=structured({"last": True}))
    os._exit(0)


@tool()
def garbage(_: Message) -> Message:
    """Lines that are no messages, and then the answer."""
    write("Traceback (most recent call last):")
    write("{not json")
    return structured({"survived": True})


@tool()
def garbage_and_silence(_: Message) -> Message:
    """Lines that are no messages, and no answer."""
    write("log: working on it")
    for_ever()
    return {}


@tool()
def no_utf8(_: Message) -> Message:
    """Bytes that are no text, and then the answer."""
    sys.stdout.buffer.write(b"\xff\xfe\n")
    return structured({"survived": True})


@tool()
def one_line_for_ever(_: Message) -> Message:
    """A line that does not end."""
    while True:
        sys.stdout.write("x" * 1024 * 1024)


@tool()
def loud(_: Message) -> Message:
    """Far more on stderr than a pipe holds."""
    for number in range(50_000):
        sys.stderr.write(f"line {number} of a server that likes to talk\n")
    sys.stderr.flush()
    return structured({"lines": 50_000})


@tool()
def change(arguments: Message) -> Message:
    """Take tools away and add new ones, then say so."""
    for name in arguments.get("remove", ()):
        tools.pop(name, None)
    for name, text in arguments.get("describe", {}).items():
        tools[name] = {**tools[name], "description": text}
    for name in arguments.get("add", ()):
        tools[name] = {"name": name, "description": "New.", "inputSchema": ANYTHING}
        calls[name] = echo_again
    send(method="notifications/tools/list_changed")
    return structured({"tools": sorted(tools)})


def echo_again(arguments: Message) -> Message:
    """What a tool does that was not there at first."""
    return structured({"new": arguments})


def grandchild() -> None:
    """A process of this process that is as stubborn as it can be."""
    ignore = "import pathlib, os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    log = "pathlib.Path('pids').open('a').write(f'{os.getpid()}\\n'); print(flush=True); time.sleep(3600)"
    child = subprocess.Popen([sys.executable, "-c", ignore + log], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()


def detached() -> None:
    """A process in a session of its own whose parent is gone, and that ignores every request to end."""
    read, ready = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            for stream in (0, 1, 2):
                os.close(stream)
            log_process()
            os.close(ready)
            for_ever()
        os._exit(0)
    os.close(ready)
    os.wait()
    os.read(read, 1)


def page(cursor: str | None) -> Message:
    """The tools, all at once or five at a time, and in one case without an end."""
    if "endless" in STARTS:
        return {"tools": [], "nextCursor": "again"}
    if "two-pages" in STARTS and not cursor:
        return {"tools": more_tools(), "nextCursor": "second"}
    if "pages" not in STARTS:
        return {"tools": [*tools.values(), *more_tools()]}
    many = [{"name": f"tool-{number:03}", "inputSchema": ANYTHING} for number in range(23)]
    start = int(cursor or 0)
    more = {"nextCursor": str(start + 5)} if start + 5 < len(many) else {}
    return {"tools": many[start : start + 5], **more}


def more_tools() -> list[Message]:
    """Tools whose names a server must not have, as the arguments ask for them."""
    names = [start.removeprefix("name=") for start in sys.argv[1:] if start.startswith("name=")]
    if "many" in STARTS:
        names += [f"tool-{number}" for number in range(10_001)]
    if "odd-names" in STARTS:
        names += ["", "x" * 1_000_000, "line\nbreak", "\x1b[31mred", "hidden\u200b", "turned\u202e", "echo ", "Echo"]
    heavy = {"description": "x" * 5_000_000} if "heavy" in STARTS else {}
    names += [f"heavy-{number}" for number in range(3) if heavy]
    return [{"name": name, "description": "another", "inputSchema": ANYTHING, **heavy} for name in names]


def odd_schemas() -> None:
    """Tools whose schemas cannot be used, and some that can."""
    for name, schema in {
        "elsewhere": {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}},
        "broken": {"type": "object", "properties": {"a": {"type": "nonsense"}}},
        "huge": {"type": "object", "description": "x" * 300_000},
        "itself": {"type": "object", "properties": {"child": {"$ref": "#"}}, "additionalProperties": False},
        "older": {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}},
        },
    }.items():
        tools[name] = {"name": name, "inputSchema": schema}
        calls[name] = echo_again


def define_tools(changes: dict[str, Message | None]) -> None:
    """Change parts of definitions, add tools that echo, and take away those whose definition is null."""
    for name, parts in changes.items():
        if parts is None:
            tools.pop(name, None)
            continue
        known = tools.get(name, {"name": name, "description": "New.", "inputSchema": ANYTHING})
        tools[name] = {**known, **parts}
        calls.setdefault(name, echo_again)


def introduce(version: str) -> Message:
    """The answer to the first request."""
    if "leaks" in STARTS:
        return {"error": {"code": -32000, "message": f"The token {os.environ['LEAKED_TOKEN']} is not known"}}
    capabilities = {"tools": {"listChanged": True}}
    info = {"name": "raw", "version": "1.0.0"}
    return {"result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}}


def answer(request: Message) -> Message:
    """The result of a request, or its error under `error`."""
    parameters = request.get("params") or {}
    match request["method"]:
        case "initialize":
            return introduce(parameters["protocolVersion"])
        case "tools/list":
            return {"result": page(parameters.get("cursor"))}
        case "tools/call" if parameters["name"] == "server-error":
            return {"error": {"code": -32000, "message": "The disk is full"}}
        case "tools/call" if parameters["name"] in calls and parameters["name"] in tools:
            arguments = {**(parameters.get("arguments") or {})}
            if parameters["name"] == "answer-then-die":
                arguments["id"] = request["id"]
            if parameters["name"] == "meta":
                arguments = parameters.get("_meta") or {}
            return {"result": calls[parameters["name"]](arguments)}
        case "tools/call":
            return {"error": {"code": -32602, "message": f"Unknown tool: {parameters['name']}"}}
    return {"error": {"code": -32601, "message": "Method not found"}}


def log_process() -> None:
    """Let the test know that this process is there."""
    with Path("pids").open("a") as pids:
        pids.write(f"{os.getpid()}\n")


def start() -> None:
    """What is done before the first message."""
    if "exit" in STARTS or ("needs-up" in STARTS and not Path("up").exists()):
        sys.exit(3)
    if "garbage" in STARTS:
        write("Server is starting ...")
    if "only-garbage" in STARTS:
        write("This is no MCP server")
    if "stubborn" in STARTS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "grandchild" in STARTS:
        grandchild()
    if "detached" in STARTS:
        detached()
    if "odd-schemas" in STARTS:
        odd_schemas()
    if Path("definitions.json").exists():
        define_tools(json.loads(Path("definitions.json").read_text()))
    if STARTS & {"hang", "only-garbage"}:
        for_ever()


def main() -> None:
    """Answer line by line until stdin closes, and longer if told so."""
    log_process()
    start()
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            send(id=request["id"], **answer(request))
    if "stubborn" in STARTS:
        for_ever()


if __name__ == "__main__":
    main()
