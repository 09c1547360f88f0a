"""Time the catalog in process: `catalog.py FOLDER CACHE ROUNDS` prints milliseconds, and bytes an agent, as JSON."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from agent_resolver.catalog import Catalog, CatalogIndex, Query, parse_uri

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.generate_agents import queries

_PAGE_BYTES = 4096


def main() -> None:
    """Time each of them."""
    folder, cache, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    if not rounds:
        Catalog([folder], CatalogIndex(str(cache))).refresh()
        return
    # Another process makes the index: what this one holds for it would be there already.
    subprocess.run([sys.executable, __file__, folder, str(cache), "0"], check=True)
    before = _resident()
    catalog, starts = _started(folder, cache, 15)
    pages = _cursors(catalog)
    next(pages)
    held = _resident() - before
    names = iter(range(catalog.total))
    texts = iter(list(queries(rounds)))
    taken = {
        "start": statistics.median(starts),
        "page": _median(lambda: catalog.page(next(pages)), rounds),
        "cold": _median(lambda: catalog.definition(parse_uri(f"agent://agent-{next(names):05d}")), rounds),
        "cached": _median(lambda: catalog.definition(parse_uri("agent://agent-00007")), rounds),
    }
    searches = sorted(_times(lambda: catalog.search(Query(text=next(texts))), rounds))
    taken["search"] = searches[len(searches) // 2]
    taken["search p95"] = searches[int(len(searches) * 0.95)]
    print(json.dumps({**taken, "bytes": held / catalog.total, "agents": catalog.total}))


def _started(folder: str, cache: Path, times: int) -> tuple[Catalog, list[float]]:
    """A catalog whose index is there already, and how long it takes to have it up to date with the disk."""
    taken = []
    catalog = Catalog([folder], CatalogIndex(str(cache)))
    for _ in range(times):
        start = time.perf_counter()
        catalog = Catalog([folder], CatalogIndex(str(cache)))
        catalog.refresh()
        taken.append((time.perf_counter() - start) * 1000)
    return catalog, taken


def _cursors(catalog: Catalog) -> Iterator[str | None]:
    """Where each page starts, again and again; all of them are known beforehand."""
    cursors: list[str | None] = [None]
    while (following := catalog.page(cursors[-1]).next_cursor) is not None:
        cursors.append(following)
    while True:
        yield from cursors


def _times(action: Callable[[], object], rounds: int) -> list[float]:
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        taken.append((time.perf_counter() - start) * 1000)
    return taken


def _median(action: Callable[[], object], rounds: int) -> float:
    action()
    return statistics.median(_times(action, rounds))


def _resident() -> int:
    """The resident memory of this process, in bytes."""
    return int(Path(f"/proc/{os.getpid()}/statm").read_text().split()[1]) * _PAGE_BYTES


if __name__ == "__main__":
    main()
