"""The recorded histories: what they are of, and how a new one is written.

`python -m tests.core.blueprint.recording` writes those that are missing in the folder of the present version. It never
writes over one: a history is the proof that runs of an older program go on as they began.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent_resolver.core import (
    INTERPRETER_VERSION,
    History,
    RecordedWave,
    StepDone,
    StepFailed,
    StepOutcome,
    encode_history,
)
from agent_resolver.schema import Blueprint
from tests.core.blueprint.runs import BROKEN, FACTS, REFUSED, Played, blueprint, play

FOLDER = Path(__file__).parent / "histories"


class Case(Struct, frozen=True, kw_only=True):
    """A blueprint, and what happens in a run of it."""

    blueprint: Blueprint
    outcomes: Mapping[str, StepOutcome] = {}
    input: Mapping[str, Any] = {}
    cancel_after: int = -1
    never_end: tuple[str, ...] = ()

    def play(self) -> Played:
        return play(self.blueprint, self.outcomes, self.input, cancel_after=self.cancel_after, never_end=self.never_end)


def _step(name: str, *, reads: str = "", **rest: object) -> dict[str, object]:
    mapping = {"order": "${input.order}"}
    if reads:
        mapping[reads] = f"${{steps.{reads}}}"
    return {"id": name, "input_mapping": mapping, **rest}


def _back(tool: str, **rest: object) -> dict[str, object]:
    return {"capability": tool, "input_mapping": {"of": "${result}", "order": "${input.order}"}, **rest}


ORDER = {"order": 7}
THRICE = {"max_attempts": 3, "first_delay_seconds": 1, "backoff": 2}

CASES: dict[str, Case] = {
    "sequence": Case(
        blueprint=blueprint(
            _step("reserve"),
            _step("charge", reads="reserve"),
            _step("archive", reads="charge"),
            output={"charged": "${steps.charge}"},
        ),
        input=ORDER,
    ),
    "group": Case(
        # Branches of unequal length: a, b and c begin, and end after three waves, one and two.
        blueprint=blueprint(
            _step("start"),
            _step("a3", reads="a2", is_parallel=True),
            _step("a2", reads="a1", is_parallel=True),
            _step("a1", is_parallel=True),
            _step("c2", is_parallel=True, after=["c10"]),
            _step("c10", is_parallel=True),
            _step("b1", is_parallel=True),
            _step("finish", reads="a3"),
            output="${steps.finish}",
        ),
        input=ORDER,
    ),
    "wide-group": Case(
        blueprint=blueprint(
            *(_step(f"s{number}", is_parallel=True) for number in range(12)),
            temporal_tuning={"max_parallel": 5},
        ),
        input=ORDER,
    ),
    "fan-out": Case(
        blueprint=blueprint(
            {
                "id": "notify",
                "input_mapping": {"to": "${item}", "number": "${index}"},
                "for_each": {"items": "${input.people}", "batch_size": 11, "max_items": 50},
                "retry": THRICE,
                "is_parallel": True,
            },
            _step("report", is_parallel=True),
            _step("close", reads="notify"),
            output="${length(steps.notify)}",
        ),
        input={"order": 7, "people": [f"person-{number}" for number in range(25)]},
        outcomes={"notify[2]": BROKEN, "notify[10]": BROKEN, "notify[2]#2": BROKEN},
    ),
    "fan-outs-in-a-group": Case(
        blueprint=blueprint(
            {
                "id": "z",
                "is_parallel": True,
                "for_each": {"items": "${input.people}", "batch_size": 2},
                "retry": THRICE,
            },
            {"id": "y", "is_parallel": True, "for_each": {"items": "${steps.b.list}", "batch_size": 1}},
            _step("b", is_parallel=True),
            _step("a", is_parallel=True, after=["b"]),
            _step("none", is_parallel=True, for_each={"items": "${input.nobody}"}),
            _step("last", is_parallel=True, reads="none"),
            output=["${steps.y}", "${steps.z}", "${steps.none}"],
            temporal_tuning={"max_parallel": 3},
        ),
        input={"order": 7, "people": ["p", "q", "r", "s", "t"], "nobody": []},
        outcomes={"b": StepDone({"list": [1, 2, 3]}), "z[1]": BROKEN},
    ),
    "retry": Case(
        blueprint=blueprint(
            _step("reserve", retry=THRICE, is_parallel=True),
            _step("charge", retry=THRICE, is_parallel=True),
            _step("print", is_parallel=True),
            _step("archive", reads="print", is_parallel=True),
        ),
        input=ORDER,
        outcomes={"reserve": BROKEN, "charge": BROKEN, "reserve#2": BROKEN},
    ),
    "condition": Case(
        blueprint=blueprint(
            _step("reserve"),
            _step("express", condition="input.order > 100", is_parallel=True),
            _step("parcel", condition="input.order <= 100", is_parallel=True),
            _step("label", reads="express", is_parallel=True),
            {
                "id": "thanks",
                "for_each": {"items": "${input.people ?? steps.express ?? input.none}"},
                "condition": "false",
            },
            output={"express": "${steps.express}", "parcel": "${steps.parcel}"},
        ),
        input=ORDER,
    ),
    "wait-person": Case(
        blueprint=blueprint(
            {"id": "ask", "wait": {"kind": "person", "question": "Refund order ${input.order}?", "role": "clerk"}},
            _step("refund", reads="ask", condition="steps.ask == 'yes'"),
            output="${steps.refund}",
        ),
        input=ORDER,
        outcomes={"ask": StepDone("yes")},
    ),
    "wait-signal": Case(
        blueprint=blueprint(
            {"id": "paid", "is_parallel": True, "wait": {"kind": "signal", "signal": "paid", "timeout_seconds": 60}},
            _step("pack", is_parallel=True),
            _step("send", reads="paid"),
        ),
        input=ORDER,
        outcomes={"paid": StepDone({"amount": 3})},
    ),
    "wait-time": Case(
        blueprint=blueprint(
            _step("send"),
            {"id": "pause", "wait": {"kind": "time", "seconds": 86400}},
            {"id": "evening", "wait": {"kind": "time", "until": "${input.day}T18:00:00"}},
            _step("remind"),
        ),
        input={"order": 7, "day": "2030-02-01"},
        outcomes={"pause": StepDone(None), "evening": StepDone(None)},
    ),
    "wait-too-long": Case(
        blueprint=blueprint(
            _step("reserve", compensation=_back("t.release")),
            {"id": "paid", "wait": {"kind": "signal", "signal": "paid", "timeout_seconds": 60}},
        ),
        input=ORDER,
        outcomes={"paid": StepFailed("TIMEOUT", "The signal did not come")},
    ),
    "compensation": Case(
        blueprint=blueprint(
            _step("reserve", compensation=_back("t.release")),
            _step("charge", is_parallel=True, compensation=_back("t.refund"), retry=THRICE),
            _step("insure", is_parallel=True, compensation=_back("t.cancel_insurance")),
            _step("log", is_parallel=True),
            {
                "id": "notify",
                "for_each": {"items": "${input.people}", "batch_size": 2},
                "compensation": {"capability": "t.excuse", "input_mapping": {"to": "${item}"}},
            },
            _step("never"),
        ),
        input={"order": 7, "people": ["p", "q", "r", "s"]},
        outcomes={"charge": BROKEN, "notify[2]": REFUSED},
    ),
    "failed-compensation": Case(
        blueprint=blueprint(
            _step("reserve", compensation=_back("t.release")),
            _step("charge", compensation=_back("t.refund", retry={"max_attempts": 2})),
            _step("send"),
        ),
        input=ORDER,
        outcomes={
            "send": REFUSED,
            "compensate/charge": BROKEN,
            "compensate/charge#2": BROKEN,
            "compensate/charge?": StepDone("retry"),
            "compensate/charge#3": BROKEN,
            "compensate/charge?#2": StepDone("done"),
        },
    ),
    "cancel": Case(
        blueprint=blueprint(
            _step("reserve", compensation=_back("t.release")),
            _step("charge", compensation=_back("t.refund")),
            _step("send"),
        ),
        input=ORDER,
        cancel_after=2,
    ),
    "cancel-while-waiting": Case(
        blueprint=blueprint(
            _step("reserve", compensation=_back("t.release")),
            {"id": "ask", "is_parallel": True, "wait": {"kind": "person", "question": "Go on?"}},
            _step("pack", is_parallel=True, compensation=_back("t.unpack")),
            _step("send"),
        ),
        input=ORDER,
        cancel_after=2,
        never_end=("ask",),
    ),
}


def history_of(case: Case) -> History:
    """The history of a run as the interpreter of this program makes it."""
    played = case.play()
    waves = []
    for wave in played.waves:
        arguments = {call.path: call.arguments for call in wave.calls}
        outcomes = {path: played.known.outcomes[path] for path in wave.paths if path in played.known.outcomes}
        waves.append(RecordedWave(wave=wave.paths, arguments=arguments, outcomes=outcomes))
    return History(
        interpreter=INTERPRETER_VERSION,
        blueprint=case.blueprint,
        input=dict(case.input),
        run=FACTS,
        waves=tuple(waves),
        cancelled_after=None if case.cancel_after < 0 else case.cancel_after,
        ended=played.ended,
    )


def write_missing() -> None:
    """Write the histories that the folder of the present version does not have yet."""
    folder = FOLDER / INTERPRETER_VERSION
    folder.mkdir(parents=True, exist_ok=True)
    for name, case in CASES.items():
        file = folder / f"{name}.json"
        if not file.exists():
            file.write_bytes(encode_history(history_of(case)))
    (FOLDER / f"{INTERPRETER_VERSION}.sha256").write_text(digests_of(folder), encoding="ascii")


def digests_of(folder: Path) -> str:
    """The digests of all histories of a version, as `sha256sum` writes them."""
    files = sorted(folder.iterdir())
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {folder.name}/{file.name}\n" for file in files]
    return "".join(lines)


if __name__ == "__main__":
    write_missing()
