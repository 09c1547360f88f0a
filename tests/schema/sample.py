"""Small right inputs to start a test from, and issues as lines to compare."""

import json
from collections.abc import Iterable
from typing import Any

from agent_resolver.schema import Issue, Severity

FRONT_MATTER = """\
name: hello
version: 1.0.0
requires:
  mcp:
    - category: audiences
      permissions:
        - read:audiences
"""

SERVER: dict[str, Any] = {
    "id": "acme",
    "version": "1.0.0",
    "endpoint": "https://acme.example/mcp",
    "categories": ["audiences"],
    "scopes": ["read:audiences"],
    "data": {"residency": ["any"], "maxSensitivity": "pii.low"},
    "trust": {"signed": True, "publisher": "Acme"},
}

LAUNCH = {"command": "acme-server", "args": ["--stdio"], "env": ["ACME_TOKEN"]}


def agent_file(front_matter: str = FRONT_MATTER, body: str = "\n# Hello\n") -> bytes:
    """An agent file; its front matter starts on line 2."""
    return f"---\n{front_matter}---\n{body}".encode()


def server(**changes: Any) -> dict[str, Any]:
    """The sample server with other values; `...` takes a key away."""
    return {key: value for key, value in {**SERVER, **changes}.items() if value is not ...}


def index(*servers: Any) -> bytes:
    """An index file, one server per line from line 2 on."""
    return ("[\n" + ",\n".join(json.dumps(entry) for entry in servers) + "\n]\n").encode()


def index_with(text: str) -> bytes:
    """An index of the sample server with one more member, written as it is."""
    return index(SERVER).replace(b"{", b"{" + text.encode() + b", ", 1)


def shown(issues: Iterable[Issue]) -> list[str]:
    """Each issue as `2:1 name: Required`, with its severity if it is no error, and its hint if it has one."""
    return [
        f"{issue.line}:{issue.column} "
        + ("" if issue.severity is Severity.ERROR else f"{issue.severity}: ")
        + str(issue)
        + (f" ({issue.hint})" if issue.hint else "")
        for issue in issues
    ]
