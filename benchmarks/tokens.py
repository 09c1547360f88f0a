"""How many tokens it saves to load agents when they are asked for: `tokens.py AGENT FOLDER`, figures out as JSON.

Loaded whole, every definition of the folder is in the context. Served, there are the pages of one whole listing, just
as `agent serve` sends them, and one definition. A token is taken for four characters on both sides.
"""

import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.serve import Stdio

_CHARACTERS = 4


def main() -> None:
    """Count both sides."""
    server = Stdio([sys.argv[1], "serve", "--root", sys.argv[2]])
    pages, cursor = [], None
    while True:
        page = server.ask("resources/list", **({"cursor": cursor} if cursor else {}))
        pages.append(page)
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    listed = [resource for page in pages for resource in page["resources"]]
    reads = [_tokens(server.ask("resources/read", uri=resource["uri"])) for resource in listed]
    server.close()
    whole = sum(resource["_meta"]["agent-resolver/tokens"] for resource in listed)
    listing, one = sum(map(_tokens, pages)), max(reads)
    document = {
        "agents": len(listed),
        "loaded whole": whole,
        "listing": listing,
        "largest definition": one,
        "median definition": statistics.median(reads),
        "fewer": 1 - (listing + one) / whole,
    }
    print(json.dumps(document, indent=2))


def _tokens(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False)) // _CHARACTERS


if __name__ == "__main__":
    main()
