"""How many tokens a workflow saves by its agents alone: `workflow_tokens.py AGENT [AGENTS]`, figures out as JSON.

A workflow of three phases and five agents runs by `agent run --workflow` on a catalog of 74 agents, or as many as are
named, against a model on loopback that records each request. What the requests hold, system prompt and messages, is
compared with the same requests if each held every definition of the catalog. Each answer has 2,000 characters, and is
in every later request of both sides. A token is taken for four characters. The exit code is 1 below the goal.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.generate_agents import catalog, talkative_catalog

_AGENTS: Final = 74
_GOAL: Final = 0.919
"""What the design of agents as resources promises for its 74 agents."""
_CHARACTERS: Final = 4
_ANSWER: Final = ("It is done as the step says, and here is what follows from it. " * 40)[:2000]
_WORKFLOW: Final = """\
# Add a feature

## Phase 1: Analysis
Use @orchestr8:agent://agent-00001 to analyse the requirements.

## Phase 2: Implementation
Use @orchestr8:agent://agent-00002 for the backend.
Use @orchestr8:agent://agent-00003 for the frontend.

## Phase 3: Quality gates
Use @orchestr8:agent://agent-00004 for the review.
Use @orchestr8:agent://agent-00005 for security.
"""
_SETTINGS: Final = """\
[providers.recorder]
adapter = "openai"
base_url = "{address}"
[models.default]
provider = "recorder"
aliases = ["haiku", "sonnet", "opus"]
"""


def main() -> int:
    """Run the workflow on both kinds of catalogs."""
    command = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else _AGENTS  # noqa: PLR2004 - the second argument
    kinds = {"ordinary": catalog, "talkative": talkative_catalog}
    with tempfile.TemporaryDirectory() as temporary:
        found = {}
        for name, make in kinds.items():
            project = Path(temporary, name)
            make(project / "agents", agents=count)
            found[name] = figures(command, project)
    print(json.dumps({"goal": _GOAL, **found}, indent=2))
    return 0 if all(each["fewer"] >= _GOAL for each in found.values()) else 1


def figures(command: str, project: Path) -> dict[str, Any]:
    """The tokens of the workflow in a project, and with all definitions in each request."""
    definitions = [_text_of(path) for path in sorted((project / "agents").rglob("*.md"))]
    requests = run_workflow(command, project)
    own = sum(_tokens(_content_of(request)) for request in requests)
    messages = sum(_tokens(_content_of(request, "user")) for request in requests)
    whole = messages + len(requests) * sum(map(_tokens, definitions))
    return {
        "agents": len(definitions),
        "requests": len(requests),
        "tokens": own,
        "tokens with all definitions": whole,
        "fewer": round(1 - own / whole, 3),
    }


def run_workflow(command: str, project: Path) -> list[dict[str, Any]]:
    """The requests that the workflow sends to its model."""
    (project / "workflow.md").write_text(_WORKFLOW)
    homes = {name: str(project.parent / name) for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
    with _recorder() as (address, requests):
        (project / "agent.toml").write_text(_SETTINGS.format(address=address))
        line = [command, "run", "--workflow", "workflow.md", "Add a search to the shop", "--trust"]
        subprocess.run(line, cwd=project, env={**os.environ, **homes}, check=True, capture_output=True)
    return requests


@contextmanager
def _recorder() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A model on loopback that keeps what it is asked."""
    requests: list[dict[str, Any]] = []
    choice = {"index": 0, "message": {"role": "assistant", "content": _ANSWER}, "finish_reason": "stop"}
    answer = json.dumps({"id": "1", "object": "chat.completion", "model": "recorder", "choices": [choice]}).encode()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", requests
        finally:
            server.shutdown()
            thread.join()


def _text_of(path: Path) -> str:
    """A definition as a system prompt holds it: the file without its front matter."""
    return path.read_text().split("---\n", 2)[2].strip()


def _content_of(request: dict[str, Any], role: str = "") -> str:
    messages = (message for message in request["messages"] if role in {"", message["role"]})
    return "".join(message["content"] for message in messages)


def _tokens(text: str) -> int:
    return len(text) // _CHARACTERS


if __name__ == "__main__":
    sys.exit(main())
