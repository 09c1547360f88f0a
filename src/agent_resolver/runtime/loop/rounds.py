"""The loop: rounds of one question to the model and the calls that its answer asks for."""

from agent_resolver.runtime.event import InferenceFailed, RoundRestarted, RoundStarted
from agent_resolver.runtime.executor import InferenceFailure
from agent_resolver.runtime.hook import Phase
from agent_resolver.runtime.inference import ChatAnswer
from agent_resolver.runtime.loop.calling import cancelled, ended, make_calls
from agent_resolver.runtime.loop.compaction import compact
from agent_resolver.runtime.loop.journaling import note_failure
from agent_resolver.runtime.loop.live_run import LiveRun
from agent_resolver.runtime.loop.phase import run_phase
from agent_resolver.runtime.loop.question import ask_model
from agent_resolver.runtime.loop.spending import check_budget
from agent_resolver.runtime.run import Termination


async def run_rounds(run: LiveRun) -> Termination:
    """Run rounds until one of them ends the run. A run that goes on first finishes the round that it ended in."""
    if (end := await _finish_interrupted_round(run)) is not None:
        return end
    while True:
        if end := cancelled(run) or await check_budget(run) or await _run_round(run):
            return end


async def _finish_interrupted_round(run: LiveRun) -> Termination | None:
    """Ask again what was not answered, judge the newest answer if that was interrupted, make the calls left open."""
    state = run.state
    if state.is_asked:
        await run.emitter.send(RoundRestarted, run.round)
        return await _question(run)
    if not state.is_judged:
        said = state.messages[-1]
        answer = ChatAnswer(text=said.text, calls=said.calls)
        if end := await _judge(run, answer):
            return end
        return await _finish_round(run)
    return await _finish_round(run) if state.open_calls else None


async def _run_round(run: LiveRun) -> Termination | None:
    """One round.

    1. The phases `step_start` and `before_inference`.
    2. The model is asked.
    3. The phase `after_inference`, in which stop rules are: they count before any call of the answer is made.
    4. The calls of the answer, and the phase `step_end`.
    """
    run.state.round += 1
    await run.emitter.send(RoundStarted, run.round)
    if end := await _phase(run, "step_start") or await _phase(run, "before_inference"):
        return end
    return await _question(run)


async def _question(run: LiveRun) -> Termination | None:
    """Ask the model, judge its answer, and make the calls of it. What is too long for the question is summed up first.

    A run that was interrupted while it summed up begins here again, and still has to.
    """
    if await compact(run) and (end := await check_budget(run, is_in_round=True)):
        return end
    try:
        answer = await ask_model(run)
    except InferenceFailure as failure:
        return cancelled(run) or await _note_failure(run, failure)
    return await _judge(run, answer) or await _finish_round(run)


async def _judge(run: LiveRun, answer: ChatAnswer) -> Termination | None:
    end = await _phase(run, "after_inference", answer)
    run.state.is_judged = True
    return end


async def _finish_round(run: LiveRun) -> Termination | None:
    """Make the calls of the round; an answer without any is the agent's last."""
    had_calls = bool(run.state.open_calls)
    if end := await make_calls(run):
        return end
    if end := await _phase(run, "step_end"):
        return end
    if had_calls:
        return None
    if run.state.is_cut_off:
        return Termination(reason="natural_end", code="length", message="The last answer ran out of tokens")
    return Termination(reason="natural_end")


async def _note_failure(run: LiveRun, failure: InferenceFailure) -> Termination | None:
    """The end of a run whose model did not answer. With a rule for errors in a row, the rule decides."""
    run.state.consecutive_errors += 1
    await note_failure(run, failure)
    await run.emitter.send(InferenceFailed, run.round, kind=failure.kind, message=str(failure))
    has_rule = any(condition.type == "consecutive_errors" for condition in run.spec.stop_conditions)
    if has_rule and failure.may_pass:
        return await _phase(run, "after_inference")
    return Termination(reason="error", code=failure.kind, message=str(failure))


async def _phase(run: LiveRun, phase: Phase, answer: ChatAnswer | None = None) -> Termination | None:
    result = await run_phase(run, phase, answer=answer)
    return ended(result.end)
