"""How many tokens it saves to load agents when they are asked for: `tokens.py AGENT [FOLDER...]`, figures out as JSON.

Loaded whole, every definition of a folder is in the context. Served, there is one whole listing, either the pages of
`resources/list` or those of `list_agents`, just as `agent serve` sends them, and one definition, the largest. A token
is taken for four characters on both sides. Beside the folders that are named, two are made: one of ordinary agents,
and one of short agents whose descriptions hold whole conversations.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.generate_agents import catalog, talkative_catalog
from benchmarks.serve import Stdio

_CHARACTERS = 4
_AGENTS = 200


def main() -> None:
    """Count both sides for each folder."""
    with tempfile.TemporaryDirectory() as temporary:
        made = [
            catalog(Path(temporary, "ordinary"), agents=_AGENTS),
            talkative_catalog(Path(temporary, "talkative"), agents=_AGENTS),
        ]
        folders = [*made, *map(Path, sys.argv[2:])]
        print(json.dumps({folder.name: figures(sys.argv[1], folder) for folder in folders}, indent=2))


def figures(agent: str, folder: Path) -> dict[str, Any]:
    """The tokens of each way, and what the two listings save."""
    server = Stdio([agent, "serve", "--root", str(folder)])
    pages: list[Any] = []
    tool_pages: list[Any] = []
    cursor: str | None = None
    while cursor is not None or not pages:
        asked = {"cursor": cursor} if cursor else {}
        pages.append(server.ask("resources/list", **asked))
        tool_pages.append(server.ask("tools/call", name="list_agents", arguments=asked)["structuredContent"])
        cursor = pages[-1].get("nextCursor")
    listed = [resource for page in pages for resource in page["resources"]]
    largest = max(_tokens(server.ask("resources/read", uri=resource["uri"])) for resource in listed)
    server.close()
    whole = sum(resource["_meta"]["agent-resolver/tokens"] for resource in listed)
    resources, tool = sum(map(_tokens, pages)), sum(map(_tokens, tool_pages))
    return {
        "agents": len(listed),
        "loaded whole": whole,
        "largest definition": largest,
        "resources/list": resources,
        "list_agents": tool,
        "fewer with resources/list": round(1 - (resources + largest) / whole, 3),
        "fewer with list_agents": round(1 - (tool + largest) / whole, 3),
    }


def _tokens(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False)) // _CHARACTERS


if __name__ == "__main__":
    main()
