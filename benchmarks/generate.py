"""Write an agent file and a server index of any size, the same bytes every time.

The index has the entries of the quick start, only more of them: ids such as `acme-analytics-00042`, one to three of
200 categories, three to eight scopes, residencies, sensitivities, a signature and a publisher, about 350 bytes each,
in no sorted order. One entry in five is a further version of the server before it.

Every choice comes from `random.Random(seed).random()`, the one method whose sequence Python promises to keep between
releases, so the bytes depend on the seed, the two sizes and nothing else. `DIGESTS` pins the sizes the benchmarks use;
a run that differs from it fails.

Usage:
    python benchmarks/generate.py --servers 100000 --requirements 10 --out DIR
"""

import argparse
import hashlib
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NotRequired, TypedDict, TypeVar

SEED: Final = 20250115
SENSITIVITIES: Final = ("public", "internal", "confidential", "pii.low", "pii.moderate", "pii.high")
RESIDENCIES: Final = (
    ("us-only",),
    ("us-only",),
    ("eu-only",),
    ("us-only", "eu-only"),
    ("any",),
)
SENSITIVITY: Final = "internal"
RESIDENCY: Final = "us-only"

VENDORS: Final = (
    "acme", "beacon", "beta", "cobalt", "contoso", "delta", "ember", "fabrikam", "globex", "harbor",
    "initech", "juniper", "keystone", "lumen", "meridian", "northwind", "orchid", "pioneer", "quarry", "zephyr",
)  # fmt: skip
AREAS: Final = (
    "ads", "billing", "catalog", "crm", "finance", "fleet", "health", "hr", "legal", "logistics",
    "marketing", "media", "ops", "payments", "product", "sales", "search", "security", "support", "travel",
)  # fmt: skip
SUBJECTS: Final = (
    "analytics", "audiences", "campaigns", "contacts", "documents", "forecasts", "incidents", "metrics", "orders",
    "reporting",
)  # fmt: skip
VERBS: Final = ("read", "write", "list", "export")
CATEGORIES: Final = tuple(f"{area}-{subject}" for area in AREAS for subject in SUBJECTS)

DIGESTS: Final = {
    (1_000, 50): (
        "8b3f67ee7db47bbf44fe69929d7a73b7a71072b6ac3c12d2c5d407439518915b",
        "53b8589420a51821be1fee99b38a0e1486cab26ddff1a1c9ce6405eb6ff4f30c",
    ),
    (1_000, 10): (
        "9d7b1e2031c0ddf41720ef6ea914a68a9a4b96116b86ce544c2ac1b0dbeb8ab1",
        "53b8589420a51821be1fee99b38a0e1486cab26ddff1a1c9ce6405eb6ff4f30c",
    ),
    (10_000, 10): (
        "a473e2432f6d01ff81e5a4cd73d77e2132c7b5b1133664d1b5b76c5ed58755b2",
        "210a6e20a94a2691b6b56df9ff076ace6fc394a0654c4b3b4b0433ef66c5799d",
    ),
    (100_000, 2): (
        "e90d0203aa1d69f40162ebf7d639055db0f1337dc748fdb548bf03198c889073",
        "57e379daf9b878de6457cefec282c46b19feda690d38de658f4dccbb336707ba",
    ),
    (100_000, 10): (
        "be2186d350f584144969464f4f0d02645310039391b1ef117ee1bd9088e96395",
        "57e379daf9b878de6457cefec282c46b19feda690d38de658f4dccbb336707ba",
    ),
    (1_000_000, 10): (
        "e4ff5fd9bc5cdf58c00d93784a2863b0d36375f9491f9f48eeacea0363fc80ae",
        "784b613af1cda9644ad7bd1d4f68863781bf24f49ab2ecda42dad7576f06943f",
    ),
}
"""(servers, requirements) → SHA-256 of `agents.md` and of `mcp.index.json`."""

T = TypeVar("T")


class Data(TypedDict):
    """What a server may hold, and where."""

    residency: list[str]
    maxSensitivity: str


class Trust(TypedDict):
    """Who published a server, and whether it is signed."""

    signed: bool
    publisher: str


class Policy(TypedDict):
    """What a server asks of its callers."""

    rateLimitPerMin: int


class Server(TypedDict):
    """One entry of the index, its keys in the order of the quick start."""

    id: str
    version: str
    endpoint: str
    categories: list[str]
    scopes: list[str]
    data: Data
    trust: Trust
    policy: NotRequired[Policy]


@dataclass(frozen=True)
class Digests:
    """SHA-256 of the two files that one run wrote."""

    agents: str
    index: str


class Dice:
    """Choices drawn from `Random.random()` alone."""

    def __init__(self, seed: int) -> None:
        """Start the sequence of `seed`."""
        self._random = random.Random(seed).random

    def share(self) -> float:
        """A number from 0 up to, not including, 1."""
        return self._random()

    def below(self, limit: int) -> int:
        """A number from 0 up to, not including, `limit`."""
        return int(self._random() * limit)

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def few(self, low: int, high: int) -> int:
        """A number from `low` to `high`, the low ones more often: the smaller of two throws."""
        return min(self.between(low, high), self.between(low, high))

    def chance(self, share: float) -> bool:
        """True in `share` of all throws."""
        return self._random() < share

    def one(self, items: Sequence[T]) -> T:
        """One of `items`."""
        return items[self.below(len(items))]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """Different ones of `items`, in the order drawn; all of them when there are fewer than `count`."""
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in range(min(count, len(rest)))]


@cache
def scopes_of(category: str) -> tuple[str, ...]:
    """The scopes that servers of `category` may offer."""
    area, _, subject = category.partition("-")
    return tuple(f"{verb}:{name}" for name in (subject, area) for verb in VERBS)


def new_server(dice: Dice, number: int) -> Server:
    """A server that shares its id with no earlier one."""
    vendor = dice.one(VENDORS)
    categories = dice.some(CATEGORIES, dice.few(1, 3))
    subject = categories[0].partition("-")[2]
    pool = list(dict.fromkeys(scope for category in categories for scope in scopes_of(category)))
    server = Server(
        id=f"{vendor}-{subject}-{number:05d}",
        version=f"{dice.between(0, 12)}.{dice.between(0, 9)}.{dice.between(0, 9)}",
        endpoint=f"https://mcp.{vendor}.example/{subject}/{number:05d}",
        categories=categories,
        scopes=dice.some(pool, dice.few(3, 8)),
        data=Data(residency=list(dice.one(RESIDENCIES)), maxSensitivity=dice.one(SENSITIVITIES)),
        trust=Trust(signed=dice.chance(0.6), publisher=f"{vendor.capitalize()} Corp"),
    )
    if dice.chance(0.3):
        server["policy"] = Policy(rateLimitPerMin=60 * dice.between(1, 20))
    return server


def next_version(server: Server) -> Server:
    """The same server, one minor version on."""
    major, minor, patch = server["version"].split(".")
    return {**server, "version": f"{major}.{int(minor) + 1}.{patch}"}


def servers(dice: Dice, count: int) -> Iterator[Server]:
    """`count` servers, no two with the same id and version."""
    server = new_server(dice, 0)
    number = 0
    for _ in range(count):
        yield server
        if dice.chance(0.2):
            server = next_version(server)
        else:
            number += 1
            server = new_server(dice, number)


def is_eligible(server: Server) -> bool:
    """True when the constraints of the agent file leave the server in."""
    data = server["data"]
    resident = RESIDENCY in data["residency"] or "any" in data["residency"]
    return resident and SENSITIVITIES.index(data["maxSensitivity"]) >= SENSITIVITIES.index(SENSITIVITY)


def write_index(path: Path, entries: Iterator[Server]) -> dict[str, list[str]]:
    """Write the index, one entry a line, and return for each category the permissions that one server can grant."""
    grants: dict[str, list[str]] = {}
    separator = "[\n"
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for server in entries:
            file.write(separator + json.dumps(server))
            separator = ",\n"
            if is_eligible(server):
                for category in server["categories"]:
                    own = [scope for scope in server["scopes"] if scope in scopes_of(category)]
                    if own:
                        grants.setdefault(category, own)
        file.write("\n]\n")
    return grants


def agent_file(dice: Dice, grants: dict[str, list[str]], requirements: int) -> str:
    """An agent file that every requirement of which some server satisfies."""
    if requirements > len(grants):
        message = f"this index can satisfy {len(grants)} requirements, not {requirements}: ask for more servers"
        raise SystemExit(message)
    lines = ["---", "name: benchmark-agent", "version: 1.0.0", "requires:", "  mcp:"]
    for category in dice.some(sorted(grants), requirements):
        lines += [f"    - category: {category}", "      permissions:"]
        lines += [f"        - {scope}" for scope in dice.some(grants[category], dice.between(1, 2))]
    lines += ["constraints:", "  data:", f"    sensitivity: {SENSITIVITY}", f"    residency: {RESIDENCY}", "---", ""]
    lines += ["# Benchmark Agent", "", "This agent exists to be resolved.", ""]
    return "\n".join(lines)


def digest(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def generate(out: Path, *, servers_count: int, requirements: int, seed: int = SEED) -> Digests:
    """Write `agents.md` and `mcp.index.json` into `out` and return their digests.

    Raises:
        SystemExit: the sizes are pinned and the bytes are not the pinned ones.
    """
    out.mkdir(parents=True, exist_ok=True)
    dice = Dice(seed)
    grants = write_index(out / "mcp.index.json", servers(dice, servers_count))
    (out / "agents.md").write_text(agent_file(dice, grants, requirements), encoding="utf-8", newline="\n")
    found = Digests(agents=digest(out / "agents.md"), index=digest(out / "mcp.index.json"))
    pinned = DIGESTS.get((servers_count, requirements))
    if seed == SEED and pinned and pinned != (found.agents, found.index):
        message = f"generated bytes are not the pinned ones: {found} where {Digests(*pinned)} was expected"
        raise SystemExit(message)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Generate once, as the command line says."""
    parser = argparse.ArgumentParser(description="Write an agent file and a server index of any size.")
    parser.add_argument("--servers", type=int, default=100_000, help="servers in the index (default: %(default)s)")
    parser.add_argument("--requirements", type=int, default=10, help="requirements of the agent (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="seed of every choice (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    options = parser.parse_args(arguments)
    found = generate(options.out, servers_count=options.servers, requirements=options.requirements, seed=options.seed)
    pinned = options.seed == SEED and (options.servers, options.requirements) in DIGESTS
    print(f"{found.agents}  {options.out / 'agents.md'}")
    print(f"{found.index}  {options.out / 'mcp.index.json'}")
    print("as pinned" if pinned else "sizes not pinned", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
