"""Whether both sides of a comparison did the same work, read from what they wrote."""

import json
from pathlib import Path
from typing import Any

from benchmarks.measure import BenchmarkError

PINNED = ("category", "serverId", "version", "endpoint", "scopes", "hash")


def check_locks(ours: Path, other: Path) -> int:
    """The number of servers that both locks pin alike.

    Raises:
        BenchmarkError: they pin different servers, scopes or hashes.
    """
    pins = _pins(ours)
    if pins != _pins(other):
        raise BenchmarkError(f"different selections in {ours} and {other}: the comparison would not be fair")
    return len(pins)


def check_explanations(ours: Path, other: Path) -> int:
    """The number of rejections that both explanations hold alike, the time of writing aside.

    Raises:
        BenchmarkError: they differ.
    """
    requirements = _requirements(ours)
    if requirements != _requirements(other):
        raise BenchmarkError(f"different explanations in {ours} and {other}: the comparison would not be fair")
    return sum(len(requirement["rejected"]) for requirement in requirements)


def _pins(path: Path) -> list[dict[str, Any]]:
    servers = json.loads(path.read_bytes())["servers"]
    return [{key: server[key] for key in PINNED} for server in servers]


def _requirements(path: Path) -> list[dict[str, Any]]:
    requirements: list[dict[str, Any]] = json.loads(path.read_bytes())["requirements"]
    return requirements
