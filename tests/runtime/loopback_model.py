"""A server on loopback that speaks OpenAI's chat completions: it plays a script, or fails in the way its path names."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agent_resolver.runtime import ChatAnswer, InferenceFailure

Document = dict[str, Any]
JSON_TYPE, EVENTS_TYPE = "application/json", "text/event-stream"
SECRET = "sk-s3cr3t-of-the-test"
MIB = 1024 * 1024

STATUSES: dict[str, tuple[int, Document]] = {
    "provider": (500, {"type": "server_error"}),
    "rate_limited": (429, {"code": "rate_limit_exceeded"}),
    "overloaded": (503, {"type": "overloaded_error"}),
    "timeout": (504, {}),
    "context_overflow": (400, {"code": "context_length_exceeded"}),
    "invalid_request": (400, {"type": "invalid_request_error"}),
    "unauthorized": (401, {"code": "invalid_api_key"}),
    "model_not_found": (404, {"code": "model_not_found"}),
    "content_filtered": (400, {"code": "content_filter"}),
}
"""How the server says each kind of failure."""


def completion(answer: ChatAnswer) -> Document:
    """An answer as a body."""
    message: Document = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": answer.finish}
    return {"id": "c1", "object": "chat.completion", "model": "loopback", "choices": [choice], "usage": usage(answer)}


def usage(answer: ChatAnswer) -> Document | None:
    used = answer.usage
    if used is None:
        return None
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.total_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_input_tokens},
    }


def events(answer: ChatAnswer) -> Iterator[Document]:
    """An answer as the events of a stream: a few characters each."""
    for start in range(0, len(answer.text), 5):
        yield event({"content": answer.text[start : start + 5]})
    for index, call in enumerate(answer.calls):
        yield event({"tool_calls": [{"index": index, "id": call.id, "function": {"name": call.name}}]})
        for start in range(0, len(call.arguments), 5):
            piece = {"arguments": call.arguments[start : start + 5]}
            yield event({"tool_calls": [{"index": index, "function": piece}]})
    yield event({}, answer.finish)
    yield {"id": "c1", "object": "chat.completion.chunk", "model": "loopback", "choices": [], "usage": usage(answer)}


def event(delta: Document, reason: str | None = None) -> Document:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "c1", "object": "chat.completion.chunk", "model": "loopback", "choices": [choice]}


class LoopbackModel:
    """The server, what it was asked, and what it answers next."""

    def __init__(self, port: int) -> None:
        self.root = f"http://127.0.0.1:{port}"
        self.requests: list[Document] = []
        self.headers: list[dict[str, str]] = []
        self.script: list[ChatAnswer | InferenceFailure] = []
        self.is_over = threading.Event()
        self._next = threading.Lock()

    def plays(self, script: Sequence[ChatAnswer | InferenceFailure]) -> str:
        """The base address under which the server plays a script."""
        self.script = list(script)
        return self.fails("script")

    def fails(self, mode: str) -> str:
        """The base address under which the server does what the mode says."""
        return f"{self.root}/{mode}/v1"

    def next_answer(self) -> ChatAnswer | InferenceFailure:
        with self._next:
            return self.script.pop(0)


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection one after another."""

    protocol_version = "HTTP/1.1"
    model: LoopbackModel

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.model.requests.append(body)
        self.model.headers.append({name.lower(): value for name, value in self.headers.items()})
        mode = self.path.split("/")[1].replace("-", "_")
        if mode.startswith("status_"):
            self.fail(int(mode.removeprefix("status_")), {"message": "no"})
            return
        getattr(self, f"mode_{mode}")(body)

    # What every mode is made of.

    def reply(self, content: bytes, kind: str = JSON_TYPE, status: int = 200, **headers: str) -> None:
        self.begin(kind, status, content_length=str(len(content)), **headers)
        self.wfile.write(content)

    def begin(self, kind: str, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def fail(self, status: int, error: Document, **headers: str) -> None:
        self.reply(json.dumps({"error": error}).encode(), status=status, **headers)

    def pour(self, pieces: Iterator[bytes]) -> None:
        """Send pieces until the client has had enough, and hang up."""
        self.close_connection = True
        for piece in pieces:
            self.wfile.write(piece)
            self.wfile.flush()

    def stream(self, documents: Iterator[Document], *, is_done: bool = True) -> None:
        self.begin(EVENTS_TYPE, connection="close")
        self.pour(f"data: {json.dumps(document)}\n\n".encode() for document in documents)
        if is_done:
            self.wfile.write(b"data: [DONE]\n\n")

    def wait_for_the_end(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        self.model.is_over.wait()

    # What the server does, by its name.

    def mode_script(self, body: Document) -> None:
        said = self.model.next_answer()
        if isinstance(said, InferenceFailure):
            status, error = STATUSES[said.kind]
            wait = {} if said.retry_after_ms is None else {"retry_after": f"{said.retry_after_ms / 1000:g}"}
            self.fail(status, {"message": str(said), **error}, **wait)
        elif body.get("stream"):
            self.stream(events(said))
        else:
            self.reply(json.dumps(completion(said)).encode())

    def mode_garbage(self, body: Document) -> None:
        self.reply(b'{"choices": [{"message"', EVENTS_TYPE if body.get("stream") else JSON_TYPE)

    def mode_garbage_event(self, _: Document) -> None:
        self.begin(EVENTS_TYPE, connection="close")
        self.pour(iter([b'data: {"choices": [{"delta": {"content": "Hel"}}]}\n\n', b"data: {nonsense\n\n"]))

    def mode_deep(self, _: Document) -> None:
        self.reply(b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")

    def mode_no_choices(self, _: Document) -> None:
        self.reply(b'{"choices": []}')

    def mode_html(self, _: Document) -> None:
        self.reply(b"<html>Log in</html>", "text/html; charset=utf-8")

    def mode_html_error(self, _: Document) -> None:
        self.reply(b"<html>Bad Gateway</html>", "text/html", 502)

    def mode_redirect(self, _: Document) -> None:
        self.reply(b"", status=307, location=f"{self.model.root}/stolen/v1/chat/completions")

    def mode_stolen(self, _: Document) -> None:
        self.reply(json.dumps(completion(ChatAnswer(text="stolen"))).encode())

    def mode_gzip(self, _: Document) -> None:
        self.reply(b"\x1f\x8b", content_encoding="gzip")

    def mode_huge(self, _: Document) -> None:
        self.begin(JSON_TYPE, connection="close")
        self.pour(b"x" * MIB for _ in range(300))

    def mode_huge_error(self, _: Document) -> None:
        self.begin(JSON_TYPE, 500, connection="close")
        self.pour(b"x" * MIB for _ in range(300))

    def mode_huge_event(self, _: Document) -> None:
        self.begin(EVENTS_TYPE, connection="close")
        self.pour(piece for piece in [b"data: ", *[b"x" * MIB] * 300])

    def mode_huge_text(self, _: Document) -> None:
        self.begin(EVENTS_TYPE, connection="close")
        data = json.dumps(event({"content": "x" * (MIB // 2)})).encode()
        self.pour(b"data: " + data + b"\n\n" for _ in range(300))

    def mode_many_objects(self, _: Document) -> None:
        self.reply(b'{"choices": [' + b"{}," * 2_000_000 + b"{}]}")

    def mode_many_calls(self, _: Document) -> None:
        calls = [{"index": number * 10**6, "function": {"name": "f", "arguments": "{}"}} for number in range(200)]
        self.stream(iter([event({"tool_calls": calls})]))

    def mode_cut(self, body: Document) -> None:
        if body.get("stream"):
            self.stream(iter([event({"content": "Hel"})]), is_done=False)
        else:
            self.begin(JSON_TYPE, content_length="1000")
            self.pour(iter([b'{"choices": [']))

    def mode_silent(self, _: Document) -> None:
        self.wait_for_the_end()

    def mode_stall(self, body: Document) -> None:
        if body.get("stream"):
            self.begin(EVENTS_TYPE, connection="close")
            self.wfile.write(f"data: {json.dumps(event({'content': 'Hel'}))}\n\n".encode())
        else:
            self.begin(JSON_TYPE, content_length="1000")
        self.wait_for_the_end()

    def mode_keep_alive(self, _: Document) -> None:
        """Nothing but comments, for ever."""
        self.begin(EVENTS_TYPE, connection="close")
        self.close_connection = True
        while not self.model.is_over.wait(0.01):
            self.wfile.write(b": still there\n\n")
            self.wfile.flush()

    def mode_slow_error(self, _: Document) -> None:
        """Takes for ever to say what went wrong, and is never silent."""
        self.begin(JSON_TYPE, 500, connection="close")
        self.close_connection = True
        while not self.model.is_over.wait(0.01):
            self.wfile.write(b" ")
            self.wfile.flush()

    def mode_empty_usage(self, _: Document) -> None:
        said = {**completion(ChatAnswer(text="Hello")), "usage": {"prompt_tokens": None}}
        self.reply(json.dumps(said).encode())

    def mode_filtered(self, body: Document) -> None:
        if body.get("stream"):
            self.stream(iter([event({"content": "Hel"}), event({}, "content_filter")]))
        else:
            said = {"message": {"content": "Hel"}, "finish_reason": "content_filter"}
            self.reply(json.dumps({"choices": [said]}).encode())

    def mode_refusal(self, body: Document) -> None:
        if body.get("stream"):
            self.stream(iter([event({"refusal": "No"}), event({}, "stop")]))
        else:
            said = {"message": {"refusal": "No"}, "finish_reason": "stop"}
            self.reply(json.dumps({"choices": [said]}).encode())

    def mode_error_inside(self, body: Document) -> None:
        """A gateway that says that all is well, and hands on what went wrong behind it."""
        error = {"error": {"message": "behind me", "code": 429}}
        if body.get("stream"):
            self.stream(iter([event({"content": "Hel"}), error]))
        else:
            self.reply(json.dumps(error).encode())

    def mode_echo_key(self, _: Document) -> None:
        self.fail(500, {"message": f"You sent {self.headers['authorization']}\x1b[31m\nand more"})

    def mode_quote_key(self, _: Document) -> None:
        self.fail(401, {"message": f"Incorrect API key: {SECRET[:12]}..."})

    def mode_odd_calls(self, body: Document) -> None:
        """Calls as servers write them that take liberties: no index, no id, an object for arguments."""
        call = {"function": {"name": "search", "arguments": {"query": 1}}}
        if body.get("stream"):
            self.stream(iter([event({"tool_calls": [call]}), event({"tool_calls": [call]}, "stop")]))
        else:
            said = {"message": {"tool_calls": [call, call]}, "finish_reason": "stop"}
            self.reply(json.dumps({"choices": [said], "usage": {"prompt_tokens": -5}}).encode())

    def mode_retry_date(self, _: Document) -> None:
        self.fail(429, {"message": "later"}, retry_after="Fri, 31 Dec 1999 23:59:59 GMT")

    def mode_retry_ms(self, _: Document) -> None:
        self.fail(429, {"message": "later"}, retry_after="3", retry_after_ms="250")


class Server(ThreadingHTTPServer):
    """Serves every connection in a thread."""

    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        """A client that hung up is what the tests want to see."""


@contextmanager
def loopback_model() -> Iterator[LoopbackModel]:
    """A server that ends with the block."""
    handler: Callable[..., BaseHTTPRequestHandler] = type("OwnHandler", (Handler,), {})
    with Server(("127.0.0.1", 0), handler) as server:
        model = handler.model = LoopbackModel(server.server_port)  # type: ignore[attr-defined] # a class of its own
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield model
        finally:
            model.is_over.set()
            server.shutdown()
            thread.join()
