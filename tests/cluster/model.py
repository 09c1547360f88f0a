"""A model on loopback for any number of runs at once: it reserves, charges, and says that it did."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler

from agent_resolver.runtime import ChatAnswer, ToolCall
from tests.loopback import loopback_server
from tests.runtime.loopback_model import EVENTS_TYPE, JSON_TYPE, completion, events

_CALLS = ("orders__reserve", "orders__charge")


def answer_to(body: dict[str, list[dict[str, str]]]) -> ChatAnswer:
    """The next answer of a conversation, by the results that it has."""
    results = sum(message["role"] == "tool" for message in body["messages"])
    if results < len(_CALLS):
        call = ToolCall(id=f"call_{results}", name=_CALLS[results], arguments='{"number": "R-1"}')
        return ChatAnswer(text="", calls=(call,), finish="tool_calls")
    return ChatAnswer(text="The order is reserved and paid.")


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = answer_to(body)
        kind, content = JSON_TYPE, json.dumps(completion(answer))
        if body.get("stream"):
            lines = [f"data: {json.dumps(each)}\n\n" for each in events(answer)]
            kind, content = EVENTS_TYPE, "".join([*lines, "data: [DONE]\n\n"])
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content.encode())))
        self.end_headers()
        # A worker that asked may have been killed meanwhile.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(content.encode())


@contextmanager
def loopback_clerk() -> Iterator[str]:
    """The base address of the model."""
    with loopback_server(_Handler) as root:
        yield f"{root}/v1"
