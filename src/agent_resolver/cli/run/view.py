"""Shows a run while it runs: the words of the agent on stdout, all else on stderr; or every event as JSON."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, Protocol

import msgspec

from agent_resolver.cli.output import (
    err,
    err_dim,
    is_out_terminal,
    out_json_line,
    out_piece,
)
from agent_resolver.cli.progress import progress_line
from agent_resolver.core.count import counted
from agent_resolver.core.shorten import shorten
from agent_resolver.project.workflow_event import (
    WorkflowEvent,
    WorkflowStepEnded,
    WorkflowStepStarted,
)
from agent_resolver.runtime.event import (
    AnswerReceived,
    AnswerRestarted,
    BudgetNear,
    CompactionFailed,
    ContextCompacted,
    HandlerFailed,
    InferenceFailed,
    MentionUnresolved,
    PlanWarned,
    RoundRestarted,
    RoundStarted,
    RunEnded,
    RunEvent,
    RunStarted,
    TextReceived,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
)
from agent_resolver.runtime.loop.calling import INTERRUPTED

_MOST_ARGUMENTS: Final = 60
_MOST_WORDS: Final = 120
"""How many characters are shown of arguments, and of what a tool says about its end."""


class View(Protocol):
    """Takes the events of a run."""

    run: str
    """The run that was shown last."""

    @property
    def streams(self) -> bool:
        """True to be sent the text of answers as it comes."""
        ...

    def starting(self) -> AbstractContextManager[None]:
        """Say that a run starts, which may take a while: servers are connected, and a model may have to be loaded."""
        ...

    def show(self, event: RunEvent | WorkflowEvent) -> None:
        """Show an event."""
        ...


class JsonView:
    """Prints each event as one line of JSON."""

    streams = True

    def __init__(self) -> None:
        self.run = ""

    def starting(self) -> AbstractContextManager[None]:
        """Say nothing: the first event does."""
        return nullcontext()

    def show(self, event: RunEvent | WorkflowEvent) -> None:
        """Print an event."""
        self.run = getattr(event, "run", self.run)
        out_json_line(event)


class TextView:
    """Shows a run to a person.

    On a terminal the text of every answer appears as it comes. Elsewhere a program reads stdout, and wants the result:
    the last text alone, once it is known to be the last.
    """

    def __init__(self) -> None:
        self.run = ""
        # Without a terminal the text is needed only once, when it is known to be the
        # last.
        self.streams = is_out_terminal()
        self._model = ""
        self._arguments: dict[str, str] = {}
        """The arguments of the calls that are under way, by call."""
        self._is_at_margin = True
        self._has_text = False
        """True once text of the present answer was shown."""
        self._has_progress = False
        self._is_last_step = True
        """True unless more steps of a workflow follow: their agents read what this one says, a program does not."""

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Say that a run starts, in a line that is gone with the first event, or with an error."""
        self._show_progress("Starting…")
        try:
            yield
        finally:
            self._wipe_progress()

    # One function: each case is one kind of event and a line or two, in the order in
    # which a run comes to them; all together they are what the operator sees of a run.
    def show(self, event: RunEvent | WorkflowEvent) -> None:  # noqa: C901, PLR0912 - one case for each kind of event
        """Show an event."""
        match event:
            case RunStarted():
                self._wipe_progress()
                self.run = event.run
                self._model = event.model
            case RoundStarted():
                # Every round may answer with text of its own, so what was shown of the
                # last one does not count.
                self._has_text = False
                self._show_progress(f"Waiting for {self._model}…")
            case RoundRestarted():
                self._has_text = False
                self._note("the answer starts again: the run was interrupted")
            case TextReceived():
                self._show_text(event.text)
            case AnswerRestarted():
                self._has_text = False
                self._note(f"the answer starts again: {event.reason}")
            case AnswerReceived():
                # Not every model streams.
                self._show_text("" if self._has_text else event.text)
                self._end_line()
            case ToolStarted():
                # The end of a call does not repeat its arguments, so they are kept
                # until then.
                self._arguments[event.call] = _short_json(event.arguments)
                self._show_progress(
                    f"Calling {event.tool} {self._arguments[event.call]}…"
                )
            case ToolProgressed():
                self._show_progress(_progress_text(event))
            case ToolEnded():
                self._note(_tool_line(event, self._arguments.pop(event.call, "")))
            case PlanWarned():
                self._warn(f"{event.code}: {event.message}")
            case InferenceFailed():
                self._warn(f"the model did not answer: {event.kind}: {event.message}")
            case BudgetNear():
                self._warn(_budget_text(event))
            case MentionUnresolved():
                self._warn(
                    f"the mention of {event.mention} stays text: {event.message}"
                )
            case ContextCompacted():
                tokens = f"about {event.tokens_before:,} tokens became {event.tokens_after:,}"
                self._note(f"summed up {counted(event.messages, 'message')}: {tokens}")
            case CompactionFailed():
                self._warn(
                    f"the conversation was not summed up: {event.code}: {event.message}"
                )
            case HandlerFailed():
                self._warn(
                    f"plugin {event.plugin} failed in {event.handler}: {event.message}"
                )
            case RunEnded():
                self._end_run(event)
            case WorkflowStepStarted():
                self._start_step(event)
            case WorkflowStepEnded() if (
                event.termination.code == "length" and event.step < event.steps
            ):
                # The next step is given a text that looks whole, and is not.
                self._warn(event.termination.message)

    def _start_step(self, event: WorkflowStepStarted) -> None:
        self.run = event.run
        self._is_last_step = event.step == event.steps
        self._end_line()
        err(f"{event.step}/{event.steps} {event.heading} ({event.agent})")

    def _show_text(self, text: str) -> None:
        if not (text and self.streams):
            return
        # The progress line is in the way of the text, which continues where it stopped.
        self._wipe_progress()
        out_piece(text)
        self._has_text = True
        self._is_at_margin = text.endswith("\n")

    def _end_line(self) -> None:
        """Leave the line of the text, so that nothing else is written into it."""
        self._wipe_progress()
        if not self._is_at_margin:
            out_piece("\n")
            self._is_at_margin = True

    def _show_progress(self, line: str) -> None:
        """Say what goes on, in a line that is wiped before anything else is written."""
        # A progress line inside of a line of text would wipe the text with it.
        self._end_line()
        progress_line(line)
        self._has_progress = True

    def _wipe_progress(self) -> None:
        if self._has_progress:
            progress_line("")
            self._has_progress = False

    def _note(self, line: str) -> None:
        self._end_line()
        err_dim(f"  {line}")

    def _warn(self, message: str) -> None:
        self._end_line()
        err(f"warning: {message}")

    def _end_run(self, event: RunEnded) -> None:
        self._end_line()
        # An interrupted run may say more when it goes on, so its last text is not the
        # result yet.
        is_over = event.status == "done" and event.termination.code != INTERRUPTED
        if is_over and self._is_last_step and event.text and not self.streams:
            out_piece(event.text if event.text.endswith("\n") else f"{event.text}\n")


def _short_json(value: Any) -> str:  # noqa: ANN401 - a JSON value
    return shorten(msgspec.json.encode(value).decode(), _MOST_ARGUMENTS)


def _progress_text(event: ToolProgressed) -> str:
    of_total = "" if event.total is None else f" of {event.total:g}"
    words = f": {event.message}" if event.message else ""
    return f"Calling {event.tool}: {event.done:g}{of_total}{words}"


def _tool_line(event: ToolEnded, arguments: str) -> str:
    # What is done needs no words; why a call was not made is said.
    reasons = [
        part for part in (event.code, event.message) if part and event.outcome != "done"
    ]
    ended = shorten(": ".join([event.outcome, *reasons]), _MOST_WORDS)
    called = f"{event.tool} {arguments}" if arguments else event.tool
    return f"· {called} → {ended}"


def _budget_text(event: BudgetNear) -> str:
    what = f"calls of {event.tool}" if event.tool else event.kind
    return f"{event.used:g} of {event.limit:g} {what} are used"
