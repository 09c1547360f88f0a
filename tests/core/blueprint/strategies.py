"""Random blueprints, and runs of them with random outcomes."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import strategies as st
from msgspec import Struct

from agent_resolver.core import StepDone, StepFailed, StepOutcome, parse_path, step_groups
from agent_resolver.schema import Blueprint, Step
from tests.core.blueprint.runs import BROKEN, REFUSED, Played, blueprint, play

# Names whose order as text is not that of their numbers, and of which one begins another.
_NAMES = ("s2", "s10", "a", "a_b", "z", "ab")
_INPUT: dict[str, Any] = {"items": list("pqrst"), "flag": True, "none": []}


class RandomOutcomes(Mapping[str, StepOutcome]):
    """An outcome for every path that there may be: the same for the same seed."""

    def __init__(self, seed: int, failures: int) -> None:
        """Of a hundred calls, about so many fail."""
        self._seed = seed
        self._failures = failures

    def __getitem__(self, path: str) -> StepOutcome:
        number = int.from_bytes(hashlib.sha256(f"{self._seed}/{path}".encode()).digest()[:4], "big")
        parts = parse_path(path)
        if parts.is_question:
            return (StepDone("retry"), StepDone("done"), StepFailed("TIMEOUT", "no answer"))[number % 3]
        # Few runs come as far as a compensation, so that these fail more often.
        if number % 100 >= (50 if parts.is_compensation else self._failures):
            return StepDone({"path": path, "list": [number % 3] * (number % 4)})
        return REFUSED if number % 5 == 0 else BROKEN

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class RandomRun(Struct, frozen=True):
    """A blueprint, and what happens in a run of it."""

    blueprint: Blueprint
    seed: int
    failures: int
    cancel_after: int

    @property
    def outcomes(self) -> RandomOutcomes:
        return RandomOutcomes(self.seed, self.failures)

    def play(self) -> Played:
        return play(self.blueprint, self.outcomes, _INPUT, cancel_after=self.cancel_after)


@st.composite
def blueprints(draw: st.DrawFn) -> Blueprint:
    """A blueprint that is right: every step refers only to steps that it may wait for."""
    names = draw(st.permutations(_NAMES))[: draw(st.sampled_from([1, 3, 4, 5, 6]))]
    # Mostly parallel: the order inside of a group is where mistakes would be.
    are_parallel = [draw(st.integers(0, 3)) > 0 for _ in names]
    bare = blueprint(*({"id": name, "is_parallel": flag} for name, flag in zip(names, are_parallel, strict=True)))
    # In a group the later names of the alphabet may wait for the earlier ones, wherever they are in the list.
    earlier: list[str] = []
    allowed: dict[str, list[str]] = {}
    for group in step_groups(bare.dag.steps):
        ids = sorted(step.id for step in group)
        allowed.update({step: [*earlier, *ids[:number]] for number, step in enumerate(ids)})
        earlier += ids
    steps = [_step(draw, step, allowed[step.id]) for step in bare.dag.steps]
    tuning = {"max_parallel": draw(st.sampled_from([1, 2, 3, 100])), "retry": _retry(draw)}
    output = [f"${{steps.{name}}}" for name in names]
    return blueprint(*steps, output=output, temporal_tuning=tuning)


def _step(draw: st.DrawFn, bare: Step, allowed: list[str]) -> dict[str, Any]:
    others = st.lists(st.sampled_from(allowed), max_size=2, unique=True) if allowed else st.just([])
    step: dict[str, Any] = {"id": bare.id, "is_parallel": bare.is_parallel, "after": draw(others)}
    step["input_mapping"] = {other: f"${{steps.{other}}}" for other in draw(others)}
    conditions = ["", "", "", "input.flag", "false", *(f"has(steps.{other})" for other in allowed[:1])]
    step["condition"] = draw(st.sampled_from(conditions))
    if draw(st.integers(0, 3)) == 0:
        step["wait"] = draw(st.sampled_from([{"kind": "signal", "signal": "x"}, {"kind": "time", "seconds": 1}]))
    if draw(st.integers(0, 2)) == 0:
        lists = [*["${input.items}"] * 6, "${input.none}", "${input.flag}"]
        lists += [f"${{steps.{other}.list}}" for other in allowed[:1]]
        step["for_each"] = {"items": draw(st.sampled_from(lists))} | draw(st.sampled_from([{}, {"batch_size": 2}]))
    if draw(st.booleans()):
        back = {"capability": "t.back", "input_mapping": {"of": "${result}"}}
        step["compensation"] = back | draw(st.sampled_from([{}, {"retry": {"max_attempts": 2}}]))
    if draw(st.booleans()):
        step["retry"] = _retry(draw)
    return step


def _retry(draw: st.DrawFn) -> dict[str, int]:
    return {"max_attempts": draw(st.integers(1, 3))}


RUNS = st.builds(
    RandomRun,
    blueprint=blueprints(),
    seed=st.integers(0, 10_000),
    failures=st.sampled_from([0, 10, 30, 60]),
    cancel_after=st.sampled_from([*[-1] * 6, 0, 1, 2, 3, 4, 5]),
)
