"""Asks the model: builds the request, lets plugins change it, and counts what the answer costs."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import structs

from agent_resolver.registry.call import place_of
from agent_resolver.runtime.errors import StateFailure
from agent_resolver.runtime.event import AnswerReceived, AnswerRestarted, TextReceived
from agent_resolver.runtime.executor import InferenceFailure, close_stream
from agent_resolver.runtime.hook import PhaseContext
from agent_resolver.runtime.inference import (
    ChatAnswer,
    ChatRequest,
    InferenceOverride,
    Restarted,
    TextDelta,
    ToolOffer,
    answer_message,
)
from agent_resolver.runtime.loop.emitter import SinkFailed
from agent_resolver.runtime.loop.foreign_code import is_being_cancelled
from agent_resolver.runtime.loop.journaling import note_question, note_reply
from agent_resolver.runtime.loop.live_run import LiveRun
from agent_resolver.runtime.loop.mentioned import definitions_due
from agent_resolver.runtime.loop.sound_answer import (
    RequestRefused,
    require_length,
    sound_answer,
)
from agent_resolver.runtime.loop_action import LOOP_ACTIONS, NextQuestion, next_question
from agent_resolver.runtime.mention import first_unanswered
from agent_resolver.runtime.message import MediaBlock, Message, user_message
from agent_resolver.runtime.model import Modalities, Modality, ModelSpec
from agent_resolver.runtime.plan import Summarizer
from agent_resolver.runtime.plugin import TaggedTransform
from agent_resolver.runtime.run import RunState
from agent_resolver.runtime.summary import shown_messages
from agent_resolver.schema.foreign_error import describe_exception
from agent_resolver.telemetry.ending import ReasoningEnd

CONTINUE: Final = "Continue exactly where you stopped."


async def ask_model(run: LiveRun) -> ChatAnswer:
    """The answer to the conversation so far, which the conversation then holds.

    An answer that broke off because it ran out of tokens is continued, as often as the spec allows. The calls of one
    that broke off are left out: the last of them is cut off, and to make it would be a guess.

    Raises:
        InferenceFailure: The model did not answer.
        RequestRefused: The model may not be shown the conversation, or its answer not be used.
        StateFailure: A transform of a plugin failed.
    """
    asked = next_question(run.values.current)
    whole: ChatAnswer | None = None

    def forget_asked() -> None:
        # What hooks asked for counts for one question alone, also if there was no
        # answer.
        if asked is not None:
            run.values.reset([action.key for action in LOOP_ACTIONS])

    def keep(answer: ChatAnswer) -> None:
        nonlocal whole
        whole = _keep_answer(run, answer)
        if whole is not None:
            # Before the answer is written down: a run that goes on from there asks the
            # next question.
            forget_asked()

    try:
        definitions = await definitions_due(run)
        while whole is None:
            # Each further turn asks for the rest of an answer that broke off: the
            # request then ends with its pieces.
            await ask(
                run, _transformed(run, _request_of(run, asked, definitions)), keep
            )
    except (InferenceFailure, RequestRefused, StateFailure):
        # Half an answer must not be continued by a later question.
        run.state.pieces = []
        run.state.is_asked = False
        forget_asked()
        raise
    return whole


def _keep_answer(run: LiveRun, answer: ChatAnswer) -> ChatAnswer | None:
    """Put an answer into the conversation once it is whole; None for one that has to be continued."""
    state = run.state
    text = "".join([*(piece.text for piece in state.pieces), answer.text])
    # Each piece was bounded by itself, and the sum of them must be as well.
    require_length("text", len(text))
    is_cut_off = answer.finish == "length"
    if is_cut_off and len(state.pieces) < run.spec.max_continuation_retries:
        state.pieces = [
            *state.pieces,
            answer_message(structs.replace(answer, calls=())),
        ]
        return None
    media = [
        block
        for piece in state.pieces
        for block in piece.content
        if isinstance(block, MediaBlock)
    ]
    calls = () if is_cut_off else answer.calls
    whole = structs.replace(
        answer, text=text, media=(*media, *answer.media), calls=calls
    )
    state.pieces = []
    state.is_asked = False
    state.is_cut_off = is_cut_off
    # Stop rules have not seen this answer: a run that is interrupted here lets them
    # look at it when it goes on.
    state.is_judged = False
    state.consecutive_errors = 0
    state.messages.append(answer_message(whole))
    state.open_calls = list(calls)
    return whole


async def ask(
    run: LiveRun,
    request: ChatRequest,
    keep: Callable[[ChatAnswer], None],
    summarizer: Summarizer | None = None,
) -> ChatAnswer:
    """Ask the model, and count what its answer used.

    Args:
        run: The run.
        request: The question.
        keep: Puts the answer into the state of the run, before any event tells of it.
        summarizer: Asked in place of the agent's model, for a summary: that is not an answer to the user, and no
            event shows its text.

    Raises:
        InferenceFailure: The model did not answer.
        RequestRefused: The model may not be shown the conversation, or its answer not be used.
    """
    # The guard knows only what is certain: an estimate of what a model takes must not
    # refuse a request.
    guard = run.agent.modality_guard
    if guard is not None:
        _require_input(guard, request.messages)
    run.state.is_asked = True
    # The journal has the question before a provider can charge for it: after a crash,
    # it counts as uncertain.
    await note_question(run, request)
    # The write may have found that another process asked for the end of the run.
    if run.is_cancelled:
        raise InferenceFailure(
            "cancelled", "The run was cancelled before its model was asked"
        )
    try:
        answer = sound_answer(await _watched_answer(run, request, summarizer))
    except asyncio.CancelledError:
        # The provider may have answered all the same, and count it.
        run.state.uncertain += 1
        raise
    if guard is not None and answer.media:
        _require_output(guard, answer)
    # Counted before it is kept: where a budget needs the number and there is none, the
    # run ends here.
    cost = _count_usage(
        run, answer, summarizer.model if summarizer else run.agent.model
    )
    keep(answer)
    # The journal has it before any event shows it: an answer that a client saw must not
    # be lost.
    await note_reply(run, answer, cost)
    if summarizer is not None:
        return answer
    await run.emitter.send(
        AnswerReceived,
        run.round,
        model=answer.model_id or answer.model,
        text=answer.text,
        finish=answer.finish,
        usage=answer.usage,
        cost=cost,
    )
    return answer


# The request --------------------------------------------------------------------------


def _request_of(
    run: LiveRun, asked: NextQuestion | None, definitions: tuple[Message, ...]
) -> ChatRequest:
    agent = run.agent
    override = run.request.override
    before: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()
    if asked is not None:
        before = asked.before
        after = asked.after
        override = _merged(override, asked.override)
    policy = agent.context_policy
    limit = override.max_output_tokens or (policy.max_output_tokens if policy else None)
    return ChatRequest(
        # The name is that of the first seat; each seat of a pool puts its own in its
        # place.
        model=agent.seats[0].model.upstream_model,
        messages=(
            *run.system,
            *before,
            *_conversation(run.state, definitions),
            *after,
            *_continuation(run.state.pieces),
        ),
        tools=_offered_tools(run, asked),
        temperature=override.temperature,
        max_output_tokens=limit,
        reasoning_effort=override.reasoning_effort or agent.spec.reasoning_effort,
        response_schema=override.response_schema,
        cache_prompt=policy is not None and policy.enable_prompt_cache,
    )


def _conversation(
    state: RunState, definitions: tuple[Message, ...]
) -> Sequence[Message]:
    """The conversation as requests hold it, with the definitions right before the words that mention them."""
    shown = shown_messages(state.messages, state.summary)
    if not definitions:
        return shown
    # No summary covers what the user said last.
    place = len(shown) - len(state.messages) + first_unanswered(state.messages)
    return (*shown[:place], *definitions, *shown[place:])


def _continuation(pieces: list[Message]) -> Iterator[Message]:
    """The text of an answer that broke off, and the request to go on with it."""
    for piece in pieces:
        yield from (piece, user_message(CONTINUE))


def _merged(usual: InferenceOverride, asked: InferenceOverride) -> InferenceOverride:
    """The settings of the run, with those that hooks asked for in their place."""
    named = {name: getattr(asked, name) for name in asked.__struct_fields__}
    # None means that no hook set the field, so the setting of the run stays.
    return structs.replace(
        usual, **{name: value for name, value in named.items() if value is not None}
    )


def _offered_tools(run: LiveRun, asked: NextQuestion | None) -> tuple[ToolOffer, ...]:
    offers = run.offers
    if asked is None or not (asked.excluded or asked.only is not None):
        return tuple(offers.values())
    # An empty set of chosen tools is not the absence of one: then no tool is offered.
    only = asked.only if asked.only is not None else offers.keys()
    return tuple(
        offer
        for tool_id, offer in offers.items()
        if tool_id in only and tool_id not in asked.excluded
    )


def _transformed(run: LiveRun, request: ChatRequest) -> ChatRequest:
    """The request as the transforms of plugins leave it. None of them may offer other tools or ask another model."""
    transforms = run.agent.env.request_transforms
    if not transforms:
        return request
    context = PhaseContext(
        phase="before_inference", run=run.facts, state=run.snapshot()
    )
    changed = request
    for transform in transforms:
        changed = _apply(transform, changed, context)
    # Most transforms leave both alone, and for the tools identity is enough to see
    # that.
    if changed.model == request.model and changed.tools is request.tools:
        return changed
    # A transform may leave tools out. What the model is shown of a tool is what the
    # plan says of it.
    kept = {offer.name for offer in changed.tools}
    tools = tuple(offer for offer in request.tools if offer.name in kept)
    return structs.replace(changed, model=request.model, tools=tools)


def _apply(
    transform: TaggedTransform, request: ChatRequest, context: PhaseContext
) -> ChatRequest:
    try:
        changed: object = transform.call(request, context)
    except (Exception, SystemExit) as error:
        message = f"plugin {transform.plugin}: a request transform failed: {describe_exception(error)}"
        raise StateFailure("transform_failed", message) from error
    if not isinstance(changed, ChatRequest):
        message = f"plugin {transform.plugin}: a request transform returned a `{type(changed).__name__}`"
        raise StateFailure("transform_failed", message)
    return changed


# The answer ---------------------------------------------------------------------------


async def _watched_answer(
    run: LiveRun, request: ChatRequest, summarizer: Summarizer | None
) -> ChatAnswer:
    """The answer of the model, with a span of its own if the run is watched."""
    telemetry = run.telemetry
    if telemetry is None:
        return await _answer_to(run, request, summarizer)
    model = summarizer.model if summarizer else run.agent.seats[0].model
    span = telemetry.begin_chat(
        model.upstream_model, model.provider_id, run.classification, run.context
    )
    # Holds for every way out without an answer or a failure of the model, such as a
    # cancelled task.
    ending = ReasoningEnd(error="cancelled")
    try:
        answer = await _answer_to(run, request, summarizer)
        ending = _ending_of(answer)
    except InferenceFailure as failure:
        ending = ReasoningEnd(error=failure.kind)
        raise
    finally:
        telemetry.end_reasoning(span, ending)
    return answer


def _ending_of(answer: ChatAnswer) -> ReasoningEnd:
    usage = answer.usage
    counted = (
        None
        if usage is None
        else (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens)
    )
    return ReasoningEnd(
        model=answer.model or answer.model_id, finish=answer.finish, usage=counted
    )


async def _answer_to(
    run: LiveRun, request: ChatRequest, summarizer: Summarizer | None
) -> ChatAnswer:
    """The answer of the model, whose text is sent as it comes where the run streams.

    Raises:
        InferenceFailure: There is none, whatever the executor raised.
    """
    try:
        # Without a reader there is no use for pieces.
        if summarizer is None and run.request.streams and run.emitter.is_heard:
            return await _streamed(run, request)
        executor = summarizer.executor if summarizer else run.agent.executor
        answer: object = await executor.complete(request)
    except (InferenceFailure, SinkFailed, RequestRefused):
        raise
    except asyncio.CancelledError as error:
        # Only a cancellation of this task passes on; one that the executor raised by
        # itself is a failure like any other.
        if is_being_cancelled():
            raise
        raise InferenceFailure(
            "cancelled", "The executor was cancelled from within"
        ) from error
    except (Exception, SystemExit) as error:
        # The words of a foreign exception may hold a key: its kind and its place are
        # enough to find it.
        message = f"The executor failed: {type(error).__name__}{place_of(error)}"
        raise InferenceFailure("provider", message) from error
    if not isinstance(answer, ChatAnswer):
        raise InferenceFailure(
            "provider", f"The executor gave a `{type(answer).__name__}`, not an answer"
        )
    return answer


async def _streamed(run: LiveRun, request: ChatRequest) -> ChatAnswer:
    attempt, length = 1, 0
    pieces = run.agent.executor.stream(request)
    try:
        async for piece in pieces:
            if isinstance(piece, TextDelta):
                # Counted while pieces come: an endless answer is refused before it
                # fills the memory.
                length += len(piece.text)
                require_length("text", length)
                await run.emitter.send(
                    TextReceived, run.round, attempt=attempt, text=piece.text
                )
            elif isinstance(piece, Restarted):
                # What came before counts no longer, neither for the reader nor for the
                # bound.
                attempt, length = piece.attempt, 0
                await run.emitter.send(
                    AnswerRestarted, run.round, attempt=attempt, reason=piece.reason
                )
            elif isinstance(piece, ChatAnswer):
                return piece
    finally:
        await close_stream(pieces)
    # The port promises the whole answer as the last piece, and it did not come.
    raise InferenceFailure(
        "stream_interrupted", "The stream ended before the answer was whole"
    )


def _count_usage(run: LiveRun, answer: ChatAnswer, asked: ModelSpec) -> float | None:
    """Add what an answer used to what the run used; what it cost, where its price is known.

    Raises:
        RequestRefused: The run has a budget that cannot be watched, because the provider does not say what it used.
    """
    state = run.state
    budget = run.budget
    usage = answer.usage
    cost = None
    if usage is not None:
        state.usage += usage
        cost = _model_of(run, answer, asked).cost(
            usage.input_tokens, usage.output_tokens
        )
    elif budget.max_tokens is not None:
        raise RequestRefused(
            "usage_unknown",
            "The provider does not say how many tokens it used, and they have a budget",
        )
    if cost is None and budget.max_cost is not None:
        raise RequestRefused(
            "cost_unknown",
            "The price of the answer is not known, and the cost has a budget",
        )
    # One unknown price makes the sum unknown from here on: a smaller number would pass
    # for the truth.
    state.cost = None if cost is None or state.cost is None else state.cost + cost
    return cost


def _model_of(run: LiveRun, answer: ChatAnswer, asked: ModelSpec) -> ModelSpec:
    """The model that answered: of a pool, its members have prices of their own."""
    models = (seat.model for seat in run.agent.seats)
    return next((model for model in models if model.id == answer.model_id), asked)


# Modalities ---------------------------------------------------------------------------


def _require_input(guard: Modalities, messages: tuple[Message, ...]) -> None:
    # An empty list means that nothing is known, not that nothing is taken.
    if not guard.input:
        return
    for message in messages:
        for block in message.content:
            if block.modality not in guard.input:
                raise _not_supported("takes", block.modality, guard.input)


def _require_output(guard: Modalities, answer: ChatAnswer) -> None:
    for block in answer.media:
        if guard.output and block.modality not in guard.output:
            raise _not_supported("gives", block.modality, guard.output)


def _not_supported(
    verb: str, modality: Modality, known: tuple[Modality, ...]
) -> RequestRefused:
    message = f"The model {verb} {', '.join(known)}, and not {modality}"
    return RequestRefused("modality_not_supported", message)
