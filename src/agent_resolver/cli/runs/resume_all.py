"""Goes on with every run that can, and with others as they are answered: `agent runs resume --ready` and `--watch`."""

from collections import Counter
from typing import Final

from agent_resolver.cli.errors import code_of
from agent_resolver.cli.output import err, out_json_line, safe
from agent_resolver.cli.run.ending import exit_code_of
from agent_resolver.cli.runs.resume import Resuming, resume_run
from agent_resolver.core.count import counted
from agent_resolver.project.ready import ReadyRuns
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.state import AGENT_KINDS, PENDING
from agent_resolver.storage.run_listing import ListedRun

_LOOK_SECONDS: Final = 30.0
"""Seconds between two looks of a watcher: nothing wakes it for a process that was killed or a secret that was set."""


async def resume_ready(resuming: Resuming) -> int:
    """Go on with every run that was answered or interrupted; a watcher stays until it is interrupted itself."""
    endings: Counter[str] = Counter()
    refused: dict[str, str] = {}
    store = resuming.session.store
    is_watching = resuming.options.watch
    ready = ReadyRuns(store=store, inbox=resuming.runs.inbox)
    # The code is that of the worst run, as for a command that does several things.
    code = 0
    if is_watching:
        # Hears of what is answered from here on, so that nothing is missed between a
        # look and the wait.
        await store.woken(PENDING.name, 0.0)
        if not resuming.options.json:
            err("Watching for answers; Ctrl-C ends it")
    while True:
        for listed in await ready.find(AGENT_KINDS, resuming.context):
            # One that cannot go on is tried again only after something about it
            # changed.
            if refused.get(listed.row.id) == listed.row.changed_at:
                continue
            ended, word = await _resume_one_of_many(listed, resuming)
            if word == "refused":
                # The time of the change is kept, so that a refused run is not tried in
                # every look.
                refused[listed.row.id] = listed.row.changed_at
            endings[word] += 1
            code = max(code, ended)
        if not is_watching:
            _report(endings, resuming)
            return code
        await store.woken(PENDING.name, _LOOK_SECONDS)


async def _resume_one_of_many(listed: ListedRun, resuming: Resuming) -> tuple[int, str]:
    """Go on with a run; its exit code, and a word for the summary. What is wrong with it does not stop the others."""
    run = listed.row.id
    options = resuming.options
    is_to_end = listed.row.status == "cancelling"
    if not options.json:
        action = "was to end" if is_to_end else "goes on"
        err(f"Run {run} of {listed.row.agent} {action}")
    try:
        if is_to_end:
            # Its process was gone before it heard of that.
            return 1, str(await resuming.journal.cancel(run))
        end = await resume_run(listed, "", resuming)
    except ResolverError as error:
        # The error of one run is reported and counted, and the runs after it go on.
        if options.json:
            document = {
                "code": code_of(error),
                "message": str(error),
                "hint": error.hint or None,
            }
            out_json_line({"success": False, "run": run, "error": document})
        else:
            err(f"✗ {safe(str(error))}")
            if error.hint:
                err(f"hint: {safe(error.hint)}")
        return 1, "refused"
    # The summary says `waiting`, the word of `agent runs list`, in place of the reason
    # `suspended`.
    word = "waiting" if end.status == "waiting" else end.reason
    code = exit_code_of(end)
    return code, word if code else "done"


def _report(endings: Counter[str], resuming: Resuming) -> None:
    if resuming.options.json:
        return
    if not endings:
        err("No run can go on now")
        return
    words = ", ".join(f"{count} {word}" for word, count in sorted(endings.items()))
    err(f"{counted(endings.total(), 'run')}: {words}")
