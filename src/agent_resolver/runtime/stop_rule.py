"""The rules by which a run ends by itself, looked at after each answer of the model."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from agent_resolver.core.wire_name import to_wire_name
from agent_resolver.runtime.hook import Command, End, PhaseContext
from agent_resolver.runtime.spec import StopCondition

HISTORY: Final = 64
"""How many of the newest answers the rule that finds loops may look at."""


class StopRules(Struct, frozen=True):
    """A hook that ends the run at the first condition that holds, in the order of the list."""

    conditions: tuple[StopCondition, ...]

    def __call__(self, context: PhaseContext) -> Command | None:
        """End the run, or nothing."""
        for condition in self.conditions:
            if end := _RULES[condition.type](condition, context):
                return Command(end=end)
        return None


def _stop(code: str, message: str) -> End:
    return End(reason="stopped", code=code, message=message)


def _max_rounds(condition: StopCondition, context: PhaseContext) -> End | None:
    limit = condition.value or 0
    # 0 switches the rule off.
    if limit == 0 or context.run.round < limit:
        return None
    return _stop("max_rounds", f"The limit of {limit} rounds is reached")


def _timeout(condition: StopCondition, context: PhaseContext) -> End | None:
    limit = condition.value or 0
    # A run may take as long as the limit; only more ends it.
    if context.run.seconds <= limit:
        return None
    return _stop("timeout", f"The run took longer than {limit} s")


def _token_budget(condition: StopCondition, context: PhaseContext) -> End | None:
    limit = condition.value or 0
    if context.run.usage.total_tokens <= limit:
        return None
    return _stop("token_budget", f"The run used more than {limit} tokens")


def _consecutive_errors(condition: StopCondition, context: PhaseContext) -> End | None:
    limit = condition.value or 0
    if context.run.consecutive_errors < limit:
        return None
    return _stop("consecutive_errors", f"{limit} inferences in a row failed")


def _stop_on_tool(condition: StopCondition, context: PhaseContext) -> End | None:
    calls = context.answer.calls if context.answer else ()
    # A model may write the id of the tool in place of the name that it was shown.
    wire_name = to_wire_name(condition.tool or "")
    if all(call.name not in {wire_name, condition.tool} for call in calls):
        return None
    return _stop("stop_on_tool", f"The model asked for {condition.tool}")


def _content_match(condition: StopCondition, context: PhaseContext) -> End | None:
    pattern = condition.pattern or ""
    is_found = _matcher_of(pattern)
    if is_found is None:
        # A rule that cannot be followed must not let the run go on for ever.
        return _stop(
            "content_match_invalid",
            f"`{pattern}` is not a regular expression that takes linear time",
        )
    if context.answer is None or not is_found(context.answer.text):
        return None
    return _stop("content_match", f"The answer matches `{pattern}`")


@lru_cache(maxsize=256)
def _matcher_of(pattern: str) -> Callable[[str], bool] | None:
    """What looks for the pattern; the model decides about the text, and must not be able to make that slow."""
    # Its engine comes with the tools of a run; a plan is made without it.
    from agent_resolver.registry.linear_regex import compile_linear_regex

    try:
        return compile_linear_regex(pattern)
    except ValueError:
        return None


def _loop_detection(condition: StopCondition, context: PhaseContext) -> End | None:
    window = condition.value or 0
    if not _is_repeated(context.run.recent_texts, window):
        return None
    return _stop("loop_detection", f"The model said the same {window} times in a row")


def _is_repeated(texts: Sequence[str], window: int) -> bool:
    newest = texts[-window:]
    # Fewer answers than the window are not a loop yet, and answers without text say
    # nothing that could repeat.
    return len(newest) == window and bool(newest[0].strip()) and len(set(newest)) == 1


_RULES: Final[dict[str, Callable[[StopCondition, PhaseContext], End | None]]] = {
    "max_rounds": _max_rounds,
    "timeout": _timeout,
    "token_budget": _token_budget,
    "consecutive_errors": _consecutive_errors,
    "stop_on_tool": _stop_on_tool,
    "content_match": _content_match,
    "loop_detection": _loop_detection,
}
