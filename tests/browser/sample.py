"""Projects whose reports are worth a look: plain, failing, large, and made by somebody who means harm."""

import json
from pathlib import Path
from typing import Any

LONG = "x" * 200
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;"
ARABIC = "\u202e\u0644\u0633\u0627\u0646\u202c \u0639\u0631\u0628\u064a abc"
HAN = "\u6f22\u5b57" * 60

CONSTRAINTS = """\
constraints:
  data: { sensitivity: pii.moderate, residency: eu-only }
  trust: { requireSigned: true }
  actions: { forbid: ["delete:*"] }
"""


def server(server_id: str, category: str, scopes: list[str], **facts: Any) -> dict[str, Any]:
    """A server of an index."""
    return {
        "id": server_id,
        "version": facts.pop("version", "1.4.0"),
        "endpoint": f"https://mcp.example/{server_id}",
        "categories": [category],
        "scopes": scopes,
        "data": {
            "residency": facts.pop("residency", ["eu-only"]),
            "maxSensitivity": facts.pop("sensitivity", "pii.high"),
        },
        "trust": {"signed": facts.pop("signed", True), "publisher": facts.pop("publisher", "Nordwind")},
        **facts,
    }


def write(folder: Path, name: str, needs: dict[str, list[str]], servers: list[dict[str, Any]], rest: str = "") -> Path:
    """A project with one agent file and one index."""
    folder.mkdir(parents=True)
    lines = [
        f"    - {{ category: {json.dumps(category)}, permissions: {json.dumps(scopes)} }}"
        for category, scopes in needs.items()
    ]
    front = ["---", f"name: {json.dumps(name)}", "version: 2.4.0", "requires:", "  mcp:", *lines]
    (folder / "agents.md").write_text("\n".join(front) + f"\n{rest}---\n", encoding="utf-8")
    (folder / "mcp.index.json").write_text(json.dumps(servers), encoding="utf-8")
    return folder


def support_desk(folder: Path, *, failing: bool) -> Path:
    """An agent that a company might have; with `failing`, one that asks for more than there is."""
    tools = {
        "find_customer": ["read:customers"],
        "update_customer": ["read:customers", "write:customers"],
        "erase_customer": ["delete:customers"],
    }
    knowledge = server("kb", "knowledge", ["search:articles"], residency=["any"], publisher="Support Engineering")
    del knowledge["endpoint"]
    knowledge |= {"launch": {"command": "uvx", "args": ["kb-server", "--root", "docs/kb"], "env": ["KB_TOKEN"]}}
    servers = [
        server("crm-core", "customers", ["read:customers", "write:customers", "delete:customers"], toolScopes=tools),
        server("crm-lite", "customers", ["read:customers"], residency=["us-only"], publisher="Lite"),
        server("hub-crm", "customers", ["read:customers", "write:customers"], publisher="Hub"),
        server("desk", "tickets", ["read:tickets", "reply:tickets"], publisher="Desk GmbH"),
        server("desk-community", "tickets", ["read:tickets", "reply:tickets"], signed=False, publisher="Community"),
        server("pay", "payments", ["read:charges"], residency=["us-only"], publisher="Pay"),
        knowledge,
    ]
    needs = {
        "customers": ["read:customers", "write:customers"],
        "knowledge": ["search:articles"],
        "tickets": ["read:tickets", "reply:tickets"],
    }
    more = {"payments": ["read:charges"], "calendar": ["read:events"]} if failing else {}
    return write(folder, "support-desk", {**needs, **more}, servers, CONSTRAINTS)


def fifty(folder: Path) -> Path:
    """An agent with fifty requirements, one in five without a server."""
    needs = {f"category-{number:02}": [f"read:{number}", f"write:{number}"] for number in range(50)}
    servers = [
        server(
            f"{maker}-{category}",
            category,
            scopes,
            residency=["us-only" if index % 5 == 0 else "any"],
            signed=index > 9,
        )
        for index, (category, scopes) in enumerate(needs.items())
        for maker in ("acme", "nordwind", "orbit")
    ]
    return write(folder, "platform-orchestrator", needs, servers, "constraints: { data: { residency: eu-only } }\n")


def hostile(folder: Path) -> Path:
    """An agent and servers whose every name is an attack or two hundred characters long."""
    needs = {MARKUP: ["a'b", "<b>bold</b>", LONG], ARABIC: ["\u0627\u0642\u0631\u0623", "W" * 200], HAN: ["\u8aad"]}
    servers = [
        server(
            MARKUP[:20] + LONG, MARKUP, [*needs[MARKUP], "</td></table>"], version="<1>" * 40, publisher=MARKUP + LONG
        ),
        server(f"b{LONG}", MARKUP, ["a'b"]),
        server(ARABIC, ARABIC, needs[ARABIC], version="\u200f1.0", toolScopes={f"<i>{LONG}": [], "t": ["W" * 200]}),
        server("\u6f22" * 100, HAN, ["\u66f8"]),
    ]
    forbid = json.dumps(f"</style><script>{LONG}")
    return write(folder, MARKUP + LONG, needs, servers, f"constraints: {{ actions: {{ forbid: [{forbid}] }} }}\n")


def large(folder: Path, size: int = 5000) -> Path:
    """An agent with three requirements, and an index with thousands of servers for each."""
    needs = {f"category-{number}": ["read:x"] for number in range(3)}
    places = ("us-only", "eu-only")
    servers = [
        server(f"s{number:05}", "", ["read:x"], residency=[places[number % 2]], categories=list(needs))
        for number in range(size)
    ]
    return write(folder, "large", needs, servers, "constraints: { data: { residency: eu-only } }\n")
