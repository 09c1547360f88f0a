"""The loop: rounds of one question to the model and the calls that its answer asks for."""

from agent_resolver.runtime.event import InferenceFailed, RoundRestarted, RoundStarted
from agent_resolver.runtime.executor import InferenceFailure
from agent_resolver.runtime.hook import Phase
from agent_resolver.runtime.inference import ChatAnswer
from agent_resolver.runtime.loop.acting import renew_caller
from agent_resolver.runtime.loop.calling import cancelled, ended, make_calls
from agent_resolver.runtime.loop.compaction import compact
from agent_resolver.runtime.loop.journaling import note_failure
from agent_resolver.runtime.loop.live_run import LiveRun
from agent_resolver.runtime.loop.phase import run_phase
from agent_resolver.runtime.loop.question import ask_model
from agent_resolver.runtime.loop.spending import check_budget
from agent_resolver.runtime.run import RunState, Termination


async def run_rounds(run: LiveRun) -> Termination:
    """Run rounds until one of them ends the run. A run that goes on first finishes the round that it ended in.

    1. The model is asked.
    2. The phase `after_inference`, in which stop rules are: they count before any call of the answer is made.
    3. The calls of the answer, and the phase `step_end`.
    """
    answer = _interrupted_answer(run.state)
    while True:
        if answer is not None:
            # Looked at before the calls are made, which empties the list.
            has_calls = bool(run.state.open_calls)
            # Each step returns None to go on, so `or` stops at the first one that ends
            # the run.
            if (
                end := await _judge(run, answer)
                or await make_calls(run)
                or await _end_round(run, has_calls=has_calls)
            ):
                return end
        # The round of a question that is asked again was admitted before.
        if end := (
            cancelled(run)
            or await check_budget(run, is_in_round=run.state.is_asked)
            or await renew_caller(run)
        ):
            return end
        said = await _ask(run)
        if isinstance(said, Termination):
            return said
        # None after a failure that a stop rule allows: the next round then asks again.
        answer = said


def _interrupted_answer(state: RunState) -> ChatAnswer | None:
    """The newest answer, if it was not judged or has calls that were not made."""
    if state.is_judged and not state.open_calls:
        return None
    # After some of its calls were made, this is a result of one; the answer was judged
    # then, and its text is not read.
    said = state.messages[-1]
    return ChatAnswer(text=said.text, calls=said.calls)


async def _ask(run: LiveRun) -> ChatAnswer | Termination | None:
    """The next answer of the model; None if it gave none and the run goes on.

    The phases `step_start` and `before_inference` come first. Then a conversation that grew too long is summed up; a
    run that was interrupted meanwhile sums up again.
    """
    if run.state.is_asked:
        # The run was interrupted while its model was asked: that question is asked
        # again, in the same round.
        await run.emitter.send(RoundRestarted, run.round)
    else:
        run.state.round += 1
        await run.emitter.send(RoundStarted, run.round)
        if end := await _phase(run, "step_start") or await _phase(
            run, "before_inference"
        ):
            return end
    # A summary uses tokens as well, so the budget is looked at again before the
    # question.
    if await compact(run) and (end := await check_budget(run, is_in_round=True)):
        return end
    try:
        return await ask_model(run)
    except InferenceFailure as failure:
        # A failure that the cancellation caused is reported as a cancelled run.
        return cancelled(run) or await _note_failure(run, failure)


async def _judge(run: LiveRun, answer: ChatAnswer) -> Termination | None:
    """Let stop rules look at an answer that they did not see yet."""
    if run.state.is_judged:
        return None
    end = await _phase(run, "after_inference", answer)
    # Set after the phase: a run that is interrupted in it lets the rules look again.
    run.state.is_judged = True
    return end


async def _end_round(run: LiveRun, *, has_calls: bool) -> Termination | None:
    """End a round whose calls were made; an answer without any is the agent's last."""
    if end := await _phase(run, "step_end"):
        return end
    if has_calls:
        return None
    if run.state.is_cut_off:
        return Termination(
            reason="natural_end",
            code="length",
            message="The last answer ran out of tokens",
        )
    return Termination(reason="natural_end")


async def _note_failure(run: LiveRun, failure: InferenceFailure) -> Termination | None:
    """The end of a run whose model did not answer. With a rule for errors in a row, the rule decides."""
    run.state.consecutive_errors += 1
    await note_failure(run, failure)
    await run.emitter.send(
        InferenceFailed, run.round, kind=failure.kind, message=str(failure)
    )
    has_rule = any(
        condition.type == "consecutive_errors" for condition in run.spec.stop_conditions
    )
    if has_rule and failure.may_pass:
        return await _phase(run, "after_inference")
    return Termination(reason="error", code=failure.kind, message=str(failure))


async def _phase(
    run: LiveRun, phase: Phase, answer: ChatAnswer | None = None
) -> Termination | None:
    result = await run_phase(run, phase, answer=answer)
    return ended(result.end)
