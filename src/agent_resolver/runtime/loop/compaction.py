"""Sums up the beginning of a conversation that grows too long, before the model is asked."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from agent_resolver.runtime.context_window import (
    Preview,
    estimate_tokens,
    estimate_tools,
    fit_request,
)
from agent_resolver.runtime.default_plugin import ArtifactCompaction, CompactionConfig
from agent_resolver.runtime.event import CompactionFailed, ContextCompacted
from agent_resolver.runtime.executor import InferenceFailure
from agent_resolver.runtime.inference import ChatAnswer, ChatRequest
from agent_resolver.runtime.loop.journaling import note_failure
from agent_resolver.runtime.loop.live_run import LiveRun
from agent_resolver.runtime.loop.question import ask
from agent_resolver.runtime.loop.sound_answer import RequestRefused
from agent_resolver.runtime.message import Message, system_message, user_message
from agent_resolver.runtime.plan import Summarizer
from agent_resolver.runtime.spec import ContextPolicy
from agent_resolver.runtime.summary import (
    Summary,
    safe_frontier,
    shown_messages,
    summary_message,
    write_transcript,
)

_PLACE: Final = "{messages}"
"""The place of the conversation in the configured prompt."""
_USABLE_PART: Final = 0.75
"""The part of the room that is used: JSON writes some characters with two, and the estimate may be too low."""
_ARTIFACT: Final = ArtifactCompaction()
_PREVIEW: Final = Preview(
    threshold_tokens=_ARTIFACT.threshold_tokens,
    max_chars=_ARTIFACT.preview_max_chars,
    max_lines=_ARTIFACT.preview_max_lines,
)
_TOO_LARGE: Final = "answer_too_large"


class _Attempt(Struct, frozen=True, kw_only=True):
    """The messages that shall be summed up."""

    summarizer: Summarizer
    policy: ContextPolicy
    threshold: int
    through: int
    """The number of messages that the summary will cover."""
    covered: tuple[Message, ...]
    """The messages that it takes the place of; an earlier summary is the first of them."""
    covered_tokens: int
    before: int
    """The estimate of the next request."""

    def tokens_with(self, summary: Summary) -> int:
        """The estimate of the next request if it holds this summary."""
        return (
            self.before
            - self.covered_tokens
            + estimate_tokens([summary_message(summary)])
        )

    def is_worth_it(self, after: int) -> bool:
        """True if a request of so many tokens saves what the section asks for, and anything at all."""
        saved = self.before - after
        return (
            saved > 0
            and saved >= self.summarizer.config.min_savings_ratio * self.before
        )


class _Failed(Exception):
    """A summary failed; the code says why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


async def compact(run: LiveRun) -> bool:
    """Sum up the oldest messages, if the next request is estimated to pass the threshold; True if a model was asked.

    The messages stay in the state of the run. A summary that fails, or saves too little, is reported and not
    tried again until the estimate has doubled: over a run, the attempts grow with its logarithm alone.

    Raises:
        RequestRefused: The run has a budget that cannot be watched.
    """
    attempt = _attempt_of(run)
    if attempt is None:
        return False
    state = run.state
    earlier = run.state.summary
    try:
        request = _request_for(run, attempt)
        answer = await _summed_up(run, request, attempt)
    except _Failed as failure:
        state.summary_due = 2 * attempt.before
        await run.emitter.send(
            CompactionFailed, run.round, code=failure.code, message=str(failure)
        )
        return False
    summary = state.summary
    # The model answered, and `keep` did not take the summary: it was empty, or saved
    # too little.
    if summary is None or summary is earlier:
        message = f"The summary saves less than {attempt.summarizer.config.min_savings_ratio:.0%}, and is not used"
        await run.emitter.send(
            CompactionFailed, run.round, code="little_saved", message=message
        )
        return True
    await run.emitter.send(
        ContextCompacted,
        run.round,
        model=answer.model_id or attempt.summarizer.model.id,
        messages=summary.through,
        tokens_before=attempt.before,
        tokens_after=attempt.tokens_with(summary),
        usage=answer.usage,
    )
    return True


def _attempt_of(run: LiveRun) -> _Attempt | None:
    """The messages to sum up now; None if nothing is too long, or no summary could save enough."""
    summarizer, policy, state = (
        run.agent.summarizer,
        run.agent.context_policy,
        run.state,
    )
    # The pieces of an unfinished answer are not part of the conversation yet.
    if (
        summarizer is None
        or policy is None
        or policy.autocompact_threshold is None
        or state.pieces
    ):
        return None
    shown = shown_messages(state.messages, state.summary)
    # The system prompt and the tools are in every request, so they count as well.
    before = (
        estimate_tokens(run.system)
        + estimate_tokens(shown)
        + estimate_tools(run.offers.values())
    )
    if before <= policy.autocompact_threshold or before < state.summary_due:
        return None
    through = safe_frontier(state.messages, policy)
    known = state.summary.through if state.summary else 0
    # The part that may be covered ends where the earlier summary does: there is nothing
    # new to sum up.
    if through <= known:
        return None
    # Counted from the end: with a summary, `shown` is shorter than the conversation.
    covered = tuple(shown[: len(shown) - (len(state.messages) - through)])
    attempt = _Attempt(
        summarizer=summarizer,
        policy=policy,
        threshold=policy.autocompact_threshold,
        through=through,
        covered=covered,
        covered_tokens=estimate_tokens(covered),
        before=before,
    )
    # Even an empty summary takes some tokens: where that saves too little, no model has
    # to be paid to find out.
    best = attempt.tokens_with(Summary("", through))
    return attempt if attempt.is_worth_it(best) else None


async def _summed_up(
    run: LiveRun, request: ChatRequest, attempt: _Attempt
) -> ChatAnswer:
    """Ask for a summary, and use it from now on if it is worth it.

    Raises:
        _Failed: The model gave no usable summary.
        RequestRefused: The run has a budget that cannot be watched.
    """
    state = run.state

    def keep(answer: ChatAnswer) -> None:
        summary = Summary(answer.text.strip(), attempt.through)
        after = attempt.tokens_with(summary)
        # An empty summary would silently drop all that it covers.
        if summary.text and attempt.is_worth_it(after):
            state.summary = summary
            # One that is still too long would be summed up again in every round.
            state.summary_due = 2 * after if after > attempt.threshold else 0
        else:
            state.summary_due = 2 * attempt.before

    # `is_asked` stays true in both cases: the question of the round is still open, and
    # a run that is interrupted now asks it in the same round.
    try:
        return await ask(run, request, keep, attempt.summarizer)
    except InferenceFailure as failure:
        state.summary_due = 2 * attempt.before
        await note_failure(run, failure)
        raise _Failed(failure.kind, str(failure)) from failure
    except RequestRefused as refusal:
        if refusal.code != _TOO_LARGE:
            # A budget can no longer be watched, which a question to the agent's model
            # would end with as well.
            state.is_asked = False
            raise
        raise _Failed(refusal.code, str(refusal)) from refusal


def _request_for(run: LiveRun, attempt: _Attempt) -> ChatRequest:
    """The question for a summary, with as much of the conversation as its model takes.

    Raises:
        _Failed: It may not be asked, or nothing of the conversation fits.
    """
    model = attempt.summarizer.model
    config = attempt.summarizer.config
    # Refused before it is asked: an answer without a price would end the whole run, and
    # not just the summary.
    if run.budget.max_cost is not None and model.cost(0, 0) is None:
        raise _Failed(
            "cost_unknown",
            f"The price of model {model.id} is not known, and the cost has a budget",
        )
    usual = min(
        attempt.policy.max_output_tokens,
        model.max_output_tokens or attempt.policy.max_output_tokens,
    )
    limit = config.summary_max_tokens or usual
    # The prompts without a conversation tell how much room is left for it.
    prompts = _messages_for(config, "")
    window = model.context_window or attempt.policy.max_context_tokens
    room = int((window - limit - estimate_tokens(prompts)) * _USABLE_PART)
    # An earlier summary comes first, and is all that is left of what it covers: it must
    # not be left out.
    shown = _fitted(
        attempt.covered, room, is_first_pinned=run.state.summary is not None
    )
    if not shown:
        raise _Failed(
            "context_overflow",
            f"Nothing of the conversation fits into a question to model {model.id}",
        )
    left_out = len(attempt.covered) - len(shown)
    note = f"[{left_out} older messages are left out]\n" if left_out else ""
    messages = _messages_for(config, note + write_transcript(shown))
    return ChatRequest(
        model=model.upstream_model, messages=messages, max_output_tokens=limit
    )


def _fitted(
    messages: tuple[Message, ...], room: int, *, is_first_pinned: bool
) -> Sequence[Message]:
    # The policy gives all room to messages and counts none of them as recent, so that
    # each may be cut or left out.
    policy = ContextPolicy(
        max_context_tokens=room, max_output_tokens=0, min_recent_messages=0
    )
    pinned = messages[0] if is_first_pinned else None
    fitted = fit_request(
        ChatRequest(model="", messages=messages), policy, _PREVIEW, pinned
    )
    # The pinned summary may be too long by itself.
    return fitted.messages if estimate_tokens(fitted.messages) <= room else ()


def _messages_for(config: CompactionConfig, transcript: str) -> tuple[Message, ...]:
    """The configured prompts. The conversation goes into the user's alone: it must not instruct the model."""
    prompt = config.summarizer_user_prompt
    asked = (
        prompt.replace(_PLACE, transcript)
        if _PLACE in prompt
        else f"{prompt}\n\n{transcript}"
    )
    system = (
        (system_message(config.summarizer_system_prompt),)
        if config.summarizer_system_prompt
        else ()
    )
    return (*system, user_message(asked))
