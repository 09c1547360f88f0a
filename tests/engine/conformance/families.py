"""Blueprints as data, by the kind of run: what comes in, how each must end, and which effects it must have had.

Every tool (`tools.py`) returns the path of its call, and every blueprint returns what its steps returned: if an engine
hands a step the result of another one, the output shows it.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from agent_resolver.schema import Blueprint
from tests.engine.conformance.tools import QUESTION

SOON: Final = 0.05
TAKEN_BACK: Final = {"compensation": {"capability": "undo", "input_mapping": {"of": "${result.path}"}}}


class Family(Struct, frozen=True, kw_only=True):
    """One kind of run."""

    blueprint: Blueprint
    status: str = "done"
    code: str = ""
    output: Any = None
    effects: tuple[str, ...]
    """`<tool> <path>` of every effect that a run must have had, each once."""
    compensated: tuple[str, ...] = ()
    """The paths that are taken back, in this order."""
    signal: str = ""
    """The signal that it waits for."""
    is_cancelled: bool = False
    """True if its run is cancelled while it waits."""


def blueprint(name: str, steps: list[dict[str, Any]]) -> Blueprint:
    """A blueprint from its steps, that returns the results of all of them."""
    data = {
        "blueprint_metadata": {"id": f"test.{name}", "version": "1.0.0", "description": f"Runs of the kind {name}"},
        "dag": {
            "input_schema": {"type": "object", "properties": {"items": {"type": "array"}}},
            "steps": steps,
            "output_mapping": {step["id"]: f"${{steps.{step['id']}}}" for step in steps},
        },
    }
    return msgspec.convert(data, Blueprint)


def call(name: str, tool: str = "once", **more: Any) -> dict[str, Any]:
    """A step that calls a tool; one that may not be done twice is taken back by a call of its own."""
    undo = TAKEN_BACK if tool == "once" else {}
    # Different in every call, so that a person can tell from the arguments of a call whether it was done.
    given = {"at": f"${{run.id}}/{name}", **more.pop("input_mapping", {})}
    return {"id": name, "capability": tool, "input_mapping": given, **undo, **more}


def wait(name: str, kind: str, **more: Any) -> dict[str, Any]:
    """A step that waits."""
    return {"id": name, "wait": {"kind": kind, **more}}


def made(*paths: str) -> dict[str, Any]:
    """What steps return that were called under their ids."""
    return {path: {"path": path} for path in paths}


def branches(**pace: Any) -> list[dict[str, Any]]:
    """Four branches of two steps: the first branch is the slowest in its first step, and the quickest in its second."""
    pairs = [
        (
            call(f"p{number}", "slow", input_mapping=_times(pace, 3 - number), is_parallel=True),
            call(
                f"q{number}",
                "slow",
                input_mapping={**_times(pace, number), "of": f"${{steps.p{number}.path}}"},
                is_parallel=True,
            ),
        )
        for number in range(4)
    ]
    return [step for pair in pairs for step in pair]


def _times(pace: Mapping[str, Any], factor: int) -> dict[str, Any]:
    return {name: value * factor for name, value in pace.items()}


FAN: Final = call(
    "f",
    "safe",
    for_each={"items": "${input.items}", "batch_size": 2},
    input_mapping={"at": "${run.id}/f/${index}", "of": "${item}"},
)
LONG: Final = call("b", "safe", input_mapping={"seconds": 0.3})
STUBBORN: Final = {"compensation": {"capability": "stubborn", "input_mapping": {"of": "${result.path}"}}}
RETRY: Final = {"max_attempts": 3, "first_delay_seconds": 0.0}
FAN_PATHS: Final = tuple(f"f[{number}]" for number in range(3))

INNER: Final = blueprint("inner", [call("i"), wait("w", "person", question=QUESTION), call("j", "safe")])
"""A blueprint that is a step of another one."""

FAMILIES: Final[Mapping[str, Family]] = {
    "plain": Family(
        blueprint=blueprint("plain", [call("a"), call("b", "safe"), call("c")]),
        output=made("a", "b", "c"),
        effects=("once a", "safe b", "once c"),
    ),
    "group": Family(
        blueprint=blueprint("group", [*branches(turns=8), call("z")]),
        output=made(*(f"{letter}{number}" for letter in "pq" for number in range(4)), "z"),
        effects=(*(f"slow {letter}{number}" for letter in "pq" for number in range(4)), "once z"),
    ),
    "fan": Family(
        blueprint=blueprint("fan", [FAN, call("z")]),
        output={"f": [{"path": path} for path in FAN_PATHS], **made("z")},
        effects=(*(f"safe {path}" for path in FAN_PATHS), "once z"),
    ),
    "failing": Family(
        blueprint=blueprint("failing", [call("a"), {**FAN, **TAKEN_BACK}, call("b"), call("c", "refuse")]),
        status="failed",
        code="TOOL_ERROR",
        effects=(
            "once a",
            *(f"safe {path}" for path in FAN_PATHS),
            "once b",
            "undo compensate/b",
            *(f"undo compensate/{path}" for path in FAN_PATHS),
            "undo compensate/a",
        ),
        compensated=("b", *reversed(FAN_PATHS), "a"),
    ),
    "flaky": Family(
        blueprint=blueprint("flaky", [call("a"), call("b", "flaky", retry=RETRY), call("c")]),
        output={**made("a", "c"), "b": {"path": "b#3"}},
        effects=("once a", "flaky b#3", "once c"),
    ),
    "approved": Family(
        blueprint=blueprint("approved", [call("a"), call("b", "ask"), call("c")]),
        output=made("a", "b", "c"),
        effects=("once a", "ask b", "once c"),
    ),
    "asking": Family(
        blueprint=blueprint("asking", [call("a"), wait("w", "person", question=QUESTION), call("c")]),
        output={**made("a", "c"), "w": "yes"},
        effects=("once a", "once c"),
    ),
    "signalled": Family(
        blueprint=blueprint("signalled", [call("a"), wait("w", "signal", signal="go"), call("c")]),
        output={**made("a", "c"), "w": {"n": 1}},
        effects=("once a", "once c"),
        signal="go",
    ),
    "inquiring": Family(
        blueprint=blueprint("inquiring", [call("a"), call("b", "inquire"), call("c")]),
        output=made("a", "b", "c"),
        effects=("once a", "inquire b", "once c"),
    ),
    "stuck": Family(
        blueprint=blueprint("stuck", [call("a"), {**call("b"), **STUBBORN}, call("c", "refuse")]),
        status="failed",
        code="TOOL_ERROR",
        effects=("once a", "once b", "stubborn compensate/b#2", "undo compensate/a"),
        compensated=("b", "a"),
    ),
    "nested": Family(
        blueprint=blueprint("nested", [call("a"), {"id": "b", "capability": INNER.id}, call("c")]),
        output={**made("a", "c"), "b": {**made("i", "j"), "w": "yes"}},
        effects=("once a", "inner once i", "inner safe j", "once c"),
    ),
    "timed": Family(
        blueprint=blueprint(
            "timed",
            [
                wait("w", "time", seconds=SOON),
                wait("x", "signal", signal="never", timeout_seconds=SOON, default="late"),
                call("c"),
            ],
        ),
        output={"w": None, "x": "late", **made("c")},
        effects=("once c",),
    ),
    "cancelled": Family(
        blueprint=blueprint("cancelled", [call("a"), call("b"), wait("w", "signal", signal="never"), call("c")]),
        status="cancelled",
        effects=("once a", "once b", "undo compensate/b", "undo compensate/a"),
        compensated=("b", "a"),
        is_cancelled=True,
    ),
}
"""Every kind of run that is in flight when workers are killed, by its name."""
SPECIAL: Final[Mapping[str, Family]] = {
    "month": Family(
        blueprint=blueprint("month", [call("a"), wait("w", "time", seconds=30 * 24 * 3600.0), call("c")]),
        output={**made("a", "c"), "w": None},
        effects=("once a", "once c"),
    ),
    "uneven": Family(
        blueprint=blueprint("uneven", [*branches(seconds=0.02), call("z")]),
        output=made(*(f"{letter}{number}" for letter in "pq" for number in range(4)), "z"),
        effects=(*(f"slow {letter}{number}" for letter in "pq" for number in range(4)), "once z"),
    ),
    "stopped": Family(
        blueprint=blueprint("stopped", [call("a"), {**LONG, **TAKEN_BACK}, call("c")]),
        status="cancelled",
        effects=("once a", "safe b", "undo compensate/b", "undo compensate/a"),
        compensated=("b", "a"),
        is_cancelled=True,
    ),
    "short": Family(
        blueprint=blueprint("short", [call("a", "safe"), call("b", "safe")]),
        output=made("a", "b"),
        effects=("safe a", "safe b"),
    ),
    "long": Family(
        blueprint=blueprint("long", [LONG]),
        output=made("b"),
        effects=("safe b",),
    ),
    "crashing": Family(
        blueprint=blueprint("crashing", [call("a"), call("b", "crash")]),
        output=made("a", "b"),
        effects=("once a", "crash b"),
    ),
}
"""Kinds of run for one test each."""
ITEMS: Final = ["x", "y", "z"]
IN_FLIGHT: Final = tuple(f"{name}-{number}" for number in range(2) for name in FAMILIES)
"""More than twenty runs, two of each kind."""


def family_of(run: str) -> str:
    """The kind of a run."""
    return run.partition("-")[0]


def kind_of(run: str) -> Family:
    """What is known of a kind of run, from the id of a run of it."""
    return {**FAMILIES, **SPECIAL}[family_of(run)]
