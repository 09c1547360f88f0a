"""Runs of blueprints without an engine: the same loop, with outcomes that a test names beforehand."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from agent_resolver.core import (
    Ended,
    Known,
    PreparedBlueprint,
    RunFacts,
    StepDone,
    StepFailed,
    StepOutcome,
    Wave,
    next_move,
    prepare,
)
from agent_resolver.schema import Blueprint

FACTS = RunFacts(id="run-1", blueprint="t.flow", version="1", cost_center="ops", started_at="2030-01-31T12:00:00Z")
REFUSED = StepFailed("FORBIDDEN_ACTION", "not allowed", is_final=True)
BROKEN = StepFailed("TOOL_ERROR", "it broke")


def blueprint(*steps: Mapping[str, Any], output: object = None, **rest: object) -> Blueprint:
    """A blueprint of these steps; one that has neither a tool nor a wait calls the tool `t.<id>`."""
    written = [step if "wait" in step else {"capability": f"t.{step['id']}", **step} for step in steps]
    content = {
        "blueprint_metadata": {"id": "t.flow", "version": "1", "description": "A flow"},
        "dag": {"input_schema": {"type": "object"}, "steps": written, "output_mapping": output},
        **rest,
    }
    return msgspec.convert(content, Blueprint)


class Played(Struct, frozen=True):
    """A run that has ended: its waves, and its end."""

    waves: tuple[Wave, ...]
    ended: Ended
    known: Known

    @property
    def paths(self) -> list[list[str]]:
        """The paths of each wave."""
        return [list(wave.paths) for wave in self.waves]


def play(
    of: Blueprint | PreparedBlueprint,
    outcomes: Mapping[str, StepOutcome] | None = None,
    arguments: Mapping[str, Any] | None = None,
    *,
    cancel_after: int = -1,
    never_end: Sequence[str] = (),
) -> Played:
    """Run a blueprint to its end.

    Args:
        of: The blueprint.
        outcomes: The outcomes of paths. Each other path is done, with its own text as the result.
        arguments: The input.
        cancel_after: The number of waves after which the wish to cancel is seen.
        never_end: Paths without an outcome, which only a wish to cancel gets over.
    """
    prepared = of if isinstance(of, PreparedBlueprint) else prepare(of)
    named = {} if outcomes is None else outcomes
    known = Known(input=arguments or {}, run=FACTS)
    waves: list[Wave] = []
    while True:
        known = msgspec.structs.replace(known, is_cancelled=known.is_cancelled or len(waves) == cancel_after)
        move = next_move(prepared, known)
        if isinstance(move, Ended):
            return Played(tuple(waves), move, known)
        assert len(waves) < 5_000, f"the run does not end: {waves[-1]}"
        waves.append(move)
        ended = [path for path in move.paths if path not in never_end]
        new = {path: named.get(path, StepDone(path)) for path in ended}
        known = msgspec.structs.replace(known, outcomes={**known.outcomes, **new})
