"""Runs the hooks of one phase, and carries out what they ask for."""

import asyncio
import inspect
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, TypeGuard

import msgspec
from msgspec import Struct, structs

from agent_resolver.runtime.errors import StateFailure
from agent_resolver.runtime.event import HandlerFailed
from agent_resolver.runtime.hook import (
    Block,
    Command,
    Effect,
    End,
    Gate,
    Phase,
    PhaseContext,
    PlannedCall,
    ScheduledAction,
    SetResult,
    Suspend,
)
from agent_resolver.runtime.inference import ChatAnswer
from agent_resolver.runtime.loop.foreign_code import settle
from agent_resolver.runtime.loop.live_run import LiveRun
from agent_resolver.runtime.plugin import TaggedHandler, TaggedHook
from agent_resolver.schema.foreign_error import describe_exception
from agent_resolver.schema.outcome import Outcome

MAX_ACTION_ROUNDS: Final = 16
"""How often actions may lead to further actions within one phase."""
MAX_ACTIONS: Final = 1_000
"""How many actions one phase may have in all: each may lead to several others."""

Said = tuple[str, Command]
"""A command, and the plugin whose hook or handler gave it."""


class PhaseResult(Struct, frozen=True):
    """The outcome of a phase."""

    gate: Gate | None = None
    end: End | None = None


NOTHING: Final = PhaseResult()
_FIELDS: Final[dict[str, tuple[type, ...]]] = {
    "updates": (Mapping,),
    "actions": (tuple, list),
    "effects": (tuple, list),
    "gate": (type(None), Block, Suspend, SetResult),
    "end": (type(None), End),
}
"""The types that the fields of a command must have: structs do not check what they are made of."""


async def run_phase(
    run: LiveRun,
    phase: Phase,
    *,
    answer: ChatAnswer | None = None,
    call: PlannedCall | None = None,
    outcome: Outcome | None = None,
) -> PhaseResult:
    """Run the hooks of a phase, then the actions that they schedule, then their effects.

    1. Every hook sees the state as it was when the phase began.
    2. Their updates are merged. If two of them update one exclusive key, all hooks of the phase run again one after the
       other, each of which sees what those before it did.
    3. Actions run until none is left, for at most 16 rounds.
    4. Effects run once.

    Raises:
        StateFailure: A hook raised, an update does not fit, no handler has an action's name, or actions never end.
    """
    hooks = run.agent.env.phase_hooks.get(phase)
    # Most phases have no hook, and only a hook needs a context.
    if not hooks:
        return NOTHING
    context = PhaseContext(
        phase=phase,
        run=run.facts,
        state=run.snapshot(),
        answer=answer,
        call=call,
        outcome=outcome,
    )
    said = await _call_hooks(run, hooks, context)
    # Nothing is merged yet, so the second pass begins with the state as the phase found
    # it; the first commands are dropped.
    if _has_clash(run, said):
        said = await _call_in_turn(run, hooks, context)
    else:
        # Merged in the order of registration: which hook finished first must not decide
        # what an `append` key holds.
        for plugin, command in said:
            run.values.update(plugin, command.updates)
    return await _carry_out(run, context, said)


async def _call_hooks(
    run: LiveRun, hooks: Sequence[TaggedHook], context: PhaseContext
) -> list[Said]:
    """The answers of the hooks, in the order in which they were registered; asynchronous ones run at the same time.

    All of them come to their end, also if one fails: nothing of a phase runs on after it.

    Raises:
        StateFailure: Hooks failed; that of the first of them.
    """
    # Plain hooks do their work here, one after the other; an asynchronous hook only
    # hands over its awaitable.
    returned = [_call_hook(hook, context) for hook in hooks]
    waiting = [place for place, each in enumerate(returned) if _is_awaitable(each)]
    if waiting:
        patience = run.patience.hook_seconds
        settling = [
            _settled(hooks[place].plugin, returned[place], patience)
            for place in waiting
        ]
        # One alone needs no task of its own.
        answers = (
            [await settling[0]]
            if len(settling) == 1
            else await asyncio.gather(*settling)
        )
        # `gather` keeps the order of its arguments, so each answer goes back to the
        # place of its hook.
        for place, answer in zip(waiting, answers, strict=True):
            returned[place] = answer
    said: list[Said] = []
    # Failures are raised only here, once all hooks have ended, and the first in
    # registration order wins.
    for hook, answer in zip(hooks, returned, strict=True):
        command = _checked(hook.plugin, answer)
        if command is not None:
            said.append((hook.plugin, command))
    return said


def _call_hook(hook: TaggedHook, context: PhaseContext) -> object:
    """The value that a hook returns, or its failure: the hooks after it are called all the same."""
    try:
        return hook.call(context)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it is code of a plugin author
        return _hook_failure(hook.plugin, error)


def _is_awaitable(returned: object) -> TypeGuard[Awaitable[object]]:
    # The usual answers come first: `inspect` takes ten times as long.
    return (
        returned is not None
        and not isinstance(returned, Command)
        and inspect.isawaitable(returned)
    )


async def _settled(plugin: str, waiting: Any, patience: float) -> object:  # noqa: ANN401 - whatever a hook returned
    try:
        return await settle(waiting, patience)
    except Exception as error:  # noqa: BLE001 - as above
        return _hook_failure(plugin, error)


def _hook_failure(plugin: str, error: BaseException) -> StateFailure:
    if isinstance(error, StateFailure):
        return error
    return StateFailure(
        "hook_failed", f"plugin {plugin}: a hook failed: {describe_exception(error)}"
    )


def _checked(plugin: str, returned: object) -> Command | None:
    """The command that a hook or a handler gave.

    Raises:
        StateFailure: It failed, or gave something else.
    """
    if returned is None:
        return None
    if isinstance(returned, StateFailure):
        raise returned
    if not isinstance(returned, Command):
        kind = type(returned).__name__
        raise StateFailure(
            "hook_failed", f"plugin {plugin}: a hook returned a `{kind}`, not a Command"
        )
    for name, kinds in _FIELDS.items():
        value = getattr(returned, name)
        if not isinstance(value, kinds):
            message = f"plugin {plugin}: a Command has a `{type(value).__name__}` as its `{name}`"
            raise StateFailure("hook_failed", message)
    _require_each(plugin, returned.actions, ScheduledAction)
    _require_each(plugin, returned.effects, Effect)
    # A gate that sets a result may hold any JSON value, which is checked where the
    # result is written.
    for part in (returned.gate, returned.end):
        if isinstance(part, Block | Suspend | End):
            _require_words(plugin, part)
    return returned


def _require_words(plugin: str, part: Block | Suspend | End) -> None:
    """What ends a run or lets it wait is shown to people, and kept."""
    try:
        # The round trip checks the types of the fields, which a struct that is made in
        # Python does not do.
        msgspec.convert(msgspec.to_builtins(part), type(part))
    except (TypeError, ValueError, RecursionError) as error:
        message = f"plugin {plugin}: a Command has a {type(part).__name__} that is not valid: {error}"
        raise StateFailure("hook_failed", message) from error


def _require_each(
    plugin: str, asked: Sequence[object], kind: type[ScheduledAction | Effect]
) -> None:
    for each in asked:
        if not isinstance(each, kind) or not isinstance(each.name, str):
            message = f"plugin {plugin}: a Command asks for a `{type(each).__name__}`, not for a {kind.__name__}"
            raise StateFailure("hook_failed", message)


def _has_clash(run: LiveRun, said: Sequence[Said]) -> bool:
    """True if two hooks update one exclusive key."""
    seen: set[str] = set()
    for _, command in said:
        for key in command.updates:
            if key in seen and run.values.is_exclusive(key):
                return True
        seen.update(command.updates)
    return False


async def _call_in_turn(
    run: LiveRun, hooks: Sequence[TaggedHook], context: PhaseContext
) -> list[Said]:
    said: list[Said] = []
    for hook in hooks:
        # A snapshot for each hook: it must see the updates of those before it, or the
        # last one would silently win.
        fresh = structs.replace(context, state=run.snapshot())
        for plugin, command in await _call_hooks(run, [hook], fresh):
            run.values.update(plugin, command.updates)
            said.append((plugin, command))
    return said


async def _carry_out(
    run: LiveRun, context: PhaseContext, said: list[Said]
) -> PhaseResult:
    """Carry out the actions of commands, those that they lead to, and all effects."""
    # Effects, the gate and the end come from all commands, those that action handlers
    # return included.
    commands = [command for _, command in said]
    commands += await _carry_out_actions(run, context, commands)
    # Effects reach outside of the run, so they wait until no action of the phase can
    # fail it any longer.
    for command in commands:
        for effect in command.effects:
            await _handle_effect(run, context, effect)
    # Of several ends the first counts, in the order of the hooks and then of the
    # handlers.
    ends = (command.end for command in commands if command.end)
    return PhaseResult(_strongest_gate(commands), next(ends, None))


async def _carry_out_actions(
    run: LiveRun, context: PhaseContext, commands: Sequence[Command]
) -> list[Command]:
    """Carry out the actions of commands, and those that they lead to; returns the commands of the handlers."""
    actions = _actions_of(commands)
    returned: list[Command] = []
    count = 0
    for _ in range(MAX_ACTION_ROUNDS):
        count += len(actions)
        if not actions or count > MAX_ACTIONS:
            break
        # One after the other: each handler sees the updates of those before it.
        led_to = [await _handle_action(run, context, action) for action in actions]
        found = [command for command in led_to if command is not None]
        returned += found
        actions = _actions_of(found)
    # Actions are left over only if one of the two bounds stopped the loop.
    if actions:
        message = f"Actions of {context.phase} led to further actions without end"
        raise StateFailure("phase_run_loop_exceeded", message)
    return returned


def _actions_of(commands: Sequence[Command]) -> list[ScheduledAction]:
    return [action for command in commands for action in command.actions]


async def _handle_action(
    run: LiveRun, context: PhaseContext, action: ScheduledAction
) -> Command | None:
    handler = _handler_of(
        run.agent.env.scheduled_action_handlers, action.name, "scheduled action"
    )
    fresh = structs.replace(context, state=run.snapshot())
    command = await _handle(run, handler, action, fresh)
    # Handlers run one at a time, so an exclusive key needs no second pass here.
    if command is not None:
        run.values.update(handler.plugin, command.updates)
    return command


async def _handle_effect(run: LiveRun, context: PhaseContext, effect: Effect) -> None:
    handler = _handler_of(run.agent.env.effect_handlers, effect.name, "effect")
    await _handle(run, handler, effect, structs.replace(context, state=run.snapshot()))


def _handler_of(
    handlers: Mapping[str, TaggedHandler], name: str, kind: str
) -> TaggedHandler:
    handler = handlers.get(name)
    if handler is None:
        raise StateFailure(
            f"unknown_{kind.replace(' ', '_')}_handler",
            f"No plugin handles the {kind} {name!r}",
        )
    return handler


async def _handle(
    run: LiveRun,
    handler: TaggedHandler,
    asked: ScheduledAction | Effect,
    context: PhaseContext,
) -> Command | None:
    """The answer of a handler; one that fails is noted, and what it was asked for is not tried again."""
    try:
        returned: object = handler.call(context, asked.payload)
        if _is_awaitable(returned):
            returned = await settle(returned, run.patience.hook_seconds)
        return _checked(handler.plugin, returned)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it is code of a plugin author
        # Unlike a failed hook, a failed handler does not end the run: this event is all
        # that tells of it.
        message = describe_exception(error)
        await run.emitter.send(
            HandlerFailed,
            run.round,
            plugin=handler.plugin,
            handler=asked.name,
            message=message,
        )
        return None


def _strongest_gate(commands: Sequence[Command]) -> Gate | None:
    """Block wins over suspend, and that over a result; among equals the first."""
    gates = [command.gate for command in commands if command.gate is not None]
    # `min` keeps the first of equal gates, which is the one that was registered first.
    return min(gates, key=_weakness, default=None)


def _weakness(gate: Gate) -> int:
    if isinstance(gate, Block):
        return 0
    return 1 if isinstance(gate, Suspend) else 2
