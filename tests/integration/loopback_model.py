"""A model on loopback that asks for tools in a fixed order, as Anthropic's Messages API or OpenAI's Responses API."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

Document = dict[str, Any]
Call = tuple[str, Document]
"""The served name of a tool, and arguments."""


class LoopbackModel:
    """Asks for one call after the other, and then says that it is done."""

    def __init__(self, port: int, calls: Sequence[Call]) -> None:
        self.port = port
        self.requests: list[Document] = []
        """The bodies of the requests that could have used tools."""
        self._calls = calls

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def next_call(self, results: int) -> Call | None:
        """The call to ask for once there are so many results."""
        return self._calls[results] if results < len(self._calls) else None

    def messages(self, body: Document) -> list[Document]:
        """The answer of the Messages API."""
        contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
        parts = [part for content in contents for part in content]
        call = self.next_call(len([part for part in parts if part["type"] == "tool_result"]))
        offered = [tool["name"] for tool in body.get("tools", ()) if call and tool["name"].endswith(f"__{call[0]}")]
        if call and offered:
            block: Document = {"type": "tool_use", "id": f"toolu_{len(parts)}", "name": offered[0], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
        else:
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "Done"}
        reason = "tool_use" if offered else "end_turn"
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": []}
        return [
            {"type": "message_start", "message": {**message, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage},
            {"type": "message_stop"},
        ]

    def responses(self, body: Document) -> list[Document]:
        """The answer of the Responses API; tools of one MCP server come in a namespace."""
        results = [item for item in body["input"] if item["type"] == "function_call_output"]
        call = self.next_call(len(results))
        spaces = [tool for tool in body["tools"] if tool["type"] == "namespace"]
        offered = [space["name"] for space in spaces for tool in space["tools"] if call and tool["name"] == call[0]]
        item: Document = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done"}]}
        if call and offered:
            item = {"type": "function_call", "call_id": f"call_{len(results)}", "namespace": offered[0]}
            item |= {"name": call[0], "arguments": json.dumps(call[1])}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        return [
            {"type": "response.created", "response": {"id": "resp_1"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
        ]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ClassVar[LoopbackModel]

    def log_message(self, *_: object) -> None:
        """Say nothing on stderr."""

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_GET(self) -> None:
        self._send(b'{"data": [], "models": []}', "application/json")

    def do_CONNECT(self) -> None:
        # A client that has this for a proxy reaches no other host.
        self.send_error(403)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        if not path.endswith(("/v1/messages", "/v1/responses")):
            self._send(b"{}", "application/json")
            return
        events = self.model.messages(body) if path.endswith("/messages") else self.model.responses(body)
        if body.get("tools"):
            self.model.requests.append(body)
        lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
        self._send("".join(lines).encode(), "text/event-stream")

    def _send(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def loopback_model(*calls: Call) -> Iterator[LoopbackModel]:
    """A model that listens until the block ends."""

    class Handler(_Handler):
        """The handler of this model alone."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Handler.model = LoopbackModel(server.server_port, calls)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Handler.model
        finally:
            server.shutdown()
            thread.join()
