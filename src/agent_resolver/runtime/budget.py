"""The most that a run may use: rounds, tokens, money, time and calls."""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct, field

_Amount = Annotated[int, Meta(ge=1)]


class RunBudget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The most that a run may use; None is no limit."""

    max_rounds: _Amount | None = None
    max_tokens: _Amount | None = None
    max_cost: Annotated[float, Meta(gt=0)] | None = None
    """In US dollars."""
    max_seconds: Annotated[float, Meta(gt=0)] | None = None
    """The time that it runs, without the time that it waits for people."""
    max_calls: dict[str, Annotated[int, Meta(ge=0)]] = field(default_factory=dict)
    """The most calls of a tool, by the tool's id; `*` limits all calls together."""

    def narrowed_by(self, other: "RunBudget") -> "RunBudget":
        """The smaller of both, limit by limit."""
        # Most requests narrow nothing, and their runs then share the budget of the
        # spec.
        if other == _UNLIMITED:
            return self
        tools = self.max_calls.keys() | other.max_calls.keys()
        return RunBudget(
            max_rounds=_smaller(self.max_rounds, other.max_rounds),
            max_tokens=_smaller(self.max_tokens, other.max_tokens),
            max_cost=_smaller(self.max_cost, other.max_cost),
            max_seconds=_smaller(self.max_seconds, other.max_seconds),
            max_calls={
                tool: _smaller(self.max_calls.get(tool), other.max_calls.get(tool))
                for tool in sorted(tools)
            },
        )


def _smaller(one: Any, other: Any) -> Any:  # noqa: ANN401 - two numbers of one kind, or None
    known = [value for value in (one, other) if value is not None]
    return min(known) if known else None


_UNLIMITED: Final = RunBudget()
