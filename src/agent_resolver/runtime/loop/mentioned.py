"""Looks up the agents that the user mentions, for the step in which their words are answered."""

from typing import Final

from agent_resolver.core.shorten import shorten
from agent_resolver.registry.call import place_of
from agent_resolver.runtime.event import MentionUnresolved
from agent_resolver.runtime.loop.foreign_code import settle
from agent_resolver.runtime.loop.live_run import LiveRun
from agent_resolver.runtime.mention import (
    MAX_DEFINITION_BYTES,
    MAX_MENTIONS,
    Definitions,
    Unresolved,
    definition_message,
    mentions_due,
)
from agent_resolver.runtime.message import Message

_MAX_SHOWN: Final = 200
"""The number of characters of a mention that an event shows."""


async def definitions_due(run: LiveRun) -> tuple[Message, ...]:
    """The definitions that the next question holds, and no later one. What is not found is reported.

    They are due as long as the newest message is the user's. So nothing about them has to be kept: a run that is
    interrupted looks them up again, and one whose model has answered does not.
    """
    definitions = run.definitions
    if definitions is None:
        return ()
    mentions = mentions_due(run.state.messages)
    # By address: an agent that is mentioned in two ways is brought in once.
    found: dict[str, Message] = {}
    for mention in mentions[:MAX_MENTIONS]:
        looked_up = await _first_found(run, definitions, mention.spellings)
        if isinstance(looked_up, Unresolved):
            await _report(run, looked_up)
        else:
            uri, text = looked_up
            found[uri] = definition_message(uri, text)
    # One report for all that are too many: the reason is the same for each.
    if len(mentions) > MAX_MENTIONS:
        over = mentions[MAX_MENTIONS]
        message = f"A prompt brings in at most {MAX_MENTIONS} agents: this one and those after it stay text"
        await _report(run, Unresolved(over.spellings[0], "too_many", message))
    return tuple(found.values())


async def _first_found(
    run: LiveRun, definitions: Definitions, uris: tuple[str, ...]
) -> tuple[str, str] | Unresolved:
    """The first of these addresses that an agent has, with its text; they are readings of one mention."""
    for uri in uris:
        try:
            # The lookup knows the caller, and finds no agent that the caller may not
            # see.
            text: object = await settle(
                definitions.definition(uri, run.context.caller),
                run.patience.hook_seconds,
            )
        except (Exception, SystemExit) as error:  # noqa: BLE001 - code of others
            # Its words may hold anything, and the run goes on without the definition.
            message = f"The agent cannot be looked up: {type(error).__name__}{place_of(error)}"
            return Unresolved(uri, "unknown", message)
        if not isinstance(text, str):
            continue
        # A lone surrogate counts as one byte here, where encoding it would fail.
        if len(text.encode(errors="replace")) > MAX_DEFINITION_BYTES:
            return Unresolved(
                uri,
                "too_large",
                f"Its definition is larger than {MAX_DEFINITION_BYTES:,} bytes",
            )
        return uri, text
    return Unresolved(
        uris[-1], "unknown", f"No agent `{shorten(uris[-1], _MAX_SHOWN)}`"
    )


async def _report(run: LiveRun, unresolved: Unresolved) -> None:
    mention = shorten(unresolved.mention, _MAX_SHOWN)
    await run.emitter.send(
        MentionUnresolved,
        run.round,
        mention=mention,
        code=unresolved.code,
        message=unresolved.message,
    )
