"""Results as a table to read and as JSON to keep."""

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.case import Result
from benchmarks.install import output_of, program

HEADER = ("case", "ours", "other", "ratio", "goal", "", "note")


def as_table(results: Sequence[Result]) -> str:
    """One line per result, in columns."""
    rows = [HEADER, *map(_cells, results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    return "\n".join(_line(row, widths) for row in rows)


def as_json(results: Sequence[Result]) -> str:
    """Every figure, with what it was measured on."""
    document = {
        "python": platform.python_version(),
        "node": output_of([program("node"), "--version"]),
        "system": f"{platform.system()} {platform.machine()}",
        "results": [{**asdict(result), "ok": result.ok} for result in results],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _cells(result: Result) -> tuple[str, ...]:
    return (
        result.name,
        _figure(result.ours, result.unit),
        "" if result.other is None else _figure(result.other, result.unit),
        "" if result.other is None else f"{result.value:.2f}",
        _goal(result),
        "" if result.goal is None else "ok" if result.ok else "MISS",
        result.note,
    )


def _goal(result: Result) -> str:
    if result.goal is None:
        return ""
    return f"{result.goal:g} {result.unit}" if result.other is None else f"{result.goal:g}"


def _figure(value: float, unit: str) -> str:
    return f"{value:,.1f} {unit}" if abs(value) >= 10 else f"{value:.2g} {unit}"  # noqa: PLR2004 - two digits tell enough


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:6], widths[1:6], strict=True)))
    return "  ".join((*cells, row[6])).rstrip()
