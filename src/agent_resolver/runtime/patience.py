"""How long a run waits for code of others before it goes on without it."""

from typing import Annotated

from msgspec import Meta, Struct

_Seconds = Annotated[float, Meta(gt=0)]


class Patience(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The longest times that a run waits. Models and tools have timeouts of their own."""

    hook_seconds: _Seconds = 300.0
    """For one hook, handler or start of a plugin; a hook may ask a model."""
    sink_seconds: _Seconds = 30.0
    """For a sink to take one event."""
    closing_seconds: _Seconds = 10.0
    """For each plugin to end its part of a run."""
