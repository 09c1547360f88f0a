"""A project for programs: what the commands do in a folder, as methods."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from msgspec import structs

from agent_resolver._extra import needing_extra
from agent_resolver.project.agent_path import agent_path_in
from agent_resolver.project.session import Session
from agent_resolver.schema.pending import PendingAction
from agent_resolver.storage.errors import UnreadableFile

if TYPE_CHECKING:
    from agent_resolver.catalog.catalog import Catalog
    from agent_resolver.core.approval import Verdict
    from agent_resolver.project.tools import OpenTools
    from agent_resolver.registry.inbox import Inbox
    from agent_resolver.registry.registry import RefusedTool
    from agent_resolver.registry.tool import CallContext
    from agent_resolver.runtime.budget import RunBudget
    from agent_resolver.runtime.event import Sink
    from agent_resolver.runtime.plan import ResolvedRunPlan
    from agent_resolver.runtime.run import RunResult
    from agent_resolver.schema.descriptor import Descriptor
    from agent_resolver.schema.outcome import Outcome

_INDEX = "mcp.index.json"


class Project:
    """A project folder: its agents, its plans, the tools that its lock opens, and its inbox.

    Use it as a context manager: it closes what was opened.
    """

    def __init__(self, session: Session, token_file: str | None = None) -> None:
        """The project of a session; programs call `Project.open`."""
        self.session = session
        self.token_file = token_file

    @classmethod
    def open(  # noqa: PLR0913 - each is one option of the command line
        cls,
        folder: str | os.PathLike[str] = ".",
        *,
        agent_file: str | os.PathLike[str] | None = None,
        index: str | os.PathLike[str] | None = None,
        trust: bool = False,
        settings: Sequence[str] = (),
        token_file: str | None = None,
    ) -> Self:
        """Open the project in a folder; files are read when they are needed.

        Args:
            folder: The folder of `agents.md` and `agent.toml`.
            agent_file: Another agent file, below `folder` unless the path is absolute; it must be there.
            index: Another index of servers than `mcp.index.json`, named like `agent_file`.
            trust: True to let the code and the commands of the project run in this program, as `--trust` does.
            settings: Settings that override `agent.toml`, such as `state.url=sqlite:///other.db`.
            token_file: A file with the token that says who calls, where the project has an issuer.

        Raises:
            UnreadableFile: There is no such folder.
        """
        base = os.fspath(folder)
        if not os.path.isdir(base):
            raise UnreadableFile(
                base, "is not a folder", missing=not os.path.lexists(base)
            )
        # An absolute path is kept by `join` as it is.
        named = None if agent_file is None else os.path.join(base, agent_file)
        session = Session(
            named or agent_path_in(base),
            os.path.join(base, index or _INDEX),
            environment=os.environ,
            flags=tuple(settings),
            trusts=trust,
            is_agent_named=named is not None,
        )
        return cls(session, token_file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what was opened."""
        self.session.close()

    @cached_property
    def catalog(self) -> "Catalog":
        """The agents of the project, up to date with the disk.

        Raises:
            UnusableRoot: A folder of agent files cannot be read.
        """
        from agent_resolver.project.catalog import judge_in

        session = self.session
        catalog = session.catalog(
            index_path=session.index_path, judge=judge_in(session)
        )
        # The kept index of the catalog may be older than the agent files.
        catalog.refresh()
        return catalog

    def plan(self, agent_id: str) -> "ResolvedRunPlan":
        """The plan of an agent: its model, plugins and tools, each checked against its lock.

        Raises:
            ResolveError: It has no plan; the error says why.
            UntrustedFolder: The project has code of its own, and no person trusts it.
            MissingExtra: The extra `tools` is not installed.
        """
        # Only from here on is the extra needed: a program without it can still read,
        # resolve and list.
        with needing_extra("tools"):
            from agent_resolver.project.plan import runtime_of

            return runtime_of(self.session, self.catalog).resolve(agent_id)

    @asynccontextmanager
    async def tools(
        self, *, timeout_seconds: float = 60.0
    ) -> "AsyncIterator[ProjectTools]":
        """Verify the lock, connect its servers, load the project's code, and close all of it at the end.

        Args:
            timeout_seconds: How long a call of a locked server may take.

        Raises:
            LockRefused: The lock does not hold; nothing is connected.
            UntrustedFolder: The project would start commands or load code, and no person trusts it.
            MissingExtra: The extra `tools` is not installed.
        """
        with needing_extra("tools"):
            from agent_resolver.project.identity import caller_of
            from agent_resolver.project.tools import open_tools
        # The caller comes first, so that a token which is refused opens and connects
        # nothing.
        caller = await caller_of(
            self.session, self.token_file, self.session.environment
        )
        async with open_tools(
            self.session, caller=caller, seconds=timeout_seconds
        ) as opened:
            yield ProjectTools(opened)

    async def call(
        self, tool_id: str, arguments: Mapping[str, Any], *, key: str | None = None
    ) -> "Outcome":
        """Open the tools, call one, and close them: for several calls, `tools` opens them once."""
        async with self.tools() as tools:
            return await tools.call(tool_id, arguments, key=key)

    async def run(  # noqa: PLR0913 - each is one option of `agent run`
        self,
        agent_id: str,
        prompt: str,
        *,
        sink: "Sink | None" = None,
        budget: "RunBudget | None" = None,
        model: str = "",
        thread: str = "",
    ) -> "RunResult":
        """Run an agent with a prompt, as `agent run` does. However the run ends, that is a result, not an exception.

        What waits for a person ends the run as suspended: `inbox` answers it, and `resume(result.run)` goes on.

        Args:
            agent_id: The agent, by its name or its address.
            prompt: What it shall do.
            sink: Called with each event of the run.
            budget: The most that the run may use; it narrows the agent's own.
            model: A model in place of the one that the agent names.
            thread: The conversation that the run goes on with.

        Raises:
            ResolveError: The agent has no plan; the error says why.
            RunRefused: The run cannot start.
            LockRefused: The agent's lock does not hold; nothing is connected.
            UntrustedFolder: The project would start commands or load code, and no person trusts it.
            MissingExtra: An extra that it needs is not installed.
        """
        with needing_extra("tools"):
            from agent_resolver.project.identity import caller_of
            from agent_resolver.project.run import open_runs
            from agent_resolver.runtime.budget import RunBudget
            from agent_resolver.runtime.message import user_message
            from agent_resolver.runtime.run import RunRequest
        caller = await caller_of(
            self.session, self.token_file, self.session.environment
        )
        request = RunRequest(
            agent_id=agent_id,
            messages=(user_message(prompt),) if prompt else (),
            thread=thread,
            budget=budget or RunBudget(),
            # Without a sink there is nothing to stream an answer to.
            streams=sink is not None,
        )
        models = {agent_id: model} if model else {}
        async with open_runs(
            self.session, self.catalog, caller=caller, models=models
        ) as runs:
            return await runs.run(request, sink)

    async def resume(
        self,
        run_id: str,
        prompt: str = "",
        *,
        sink: "Sink | None" = None,
        budget: "RunBudget | None" = None,
        with_changes: bool = False,
    ) -> "RunResult":
        """Let a run go on that waits, was interrupted, or used up a budget, as `agent runs resume` does.

        Args:
            run_id: The id of the run: `RunResult.run`.
            prompt: What the agent shall do in place of the calls that were open; may be left out.
            sink: Called with each event of the run.
            budget: The most that the run may use, in place of what it began with.
            with_changes: True to go on although the agent changed since.

        Raises:
            RunRefused: There is no such run, another process has it, it has ended, or its agent changed since.
            ResolveError: Its agent has no plan; and all else that keeps a run from starting: see `run`.
        """
        with needing_extra("tools"):
            from agent_resolver.project.identity import caller_of
            from agent_resolver.project.run import open_runs
            from agent_resolver.runtime.message import user_message
            from agent_resolver.runtime.run import ResumeRequest
        caller = await caller_of(
            self.session, self.token_file, self.session.environment
        )
        request = ResumeRequest(
            run=run_id,
            messages=(user_message(prompt),) if prompt else (),
            budget=budget,
            streams=sink is not None,
            with_changes=with_changes,
        )
        async with open_runs(self.session, self.catalog, caller=caller) as runs:
            return await runs.resume(request, sink)

    async def inbox(self) -> "ProjectInbox":
        """The inbox of the project, as the caller of this program sees it.

        Raises:
            MissingExtra: The extra `tools` is not installed.
        """
        with needing_extra("tools"):
            from agent_resolver.project.identity import caller_of
            from agent_resolver.registry.tool import CallContext
        caller = await caller_of(
            self.session, self.token_file, self.session.environment
        )
        return ProjectInbox(self.session, CallContext.for_caller(caller))


class ProjectTools:
    """The tools of a project while they are open."""

    def __init__(self, opened: "OpenTools") -> None:
        self._opened = opened

    @property
    def problems(self) -> Mapping[str, Exception]:
        """The errors of the locked servers that are not there, by name; the tools of the others can be called."""
        return dict(self._opened.servers.problems)

    def list(self, tag: str | None = None) -> "tuple[Descriptor, ...]":
        """Every tool that may be called, by id; only those with the tag, if one is given."""
        return self._opened.registry.list(tag)

    def refused(self) -> "tuple[RefusedTool, ...]":
        """Every tool that is there and may not be called, by id, with the reason."""
        return self._opened.registry.refused()

    async def call(
        self,
        tool_id: str,
        arguments: Mapping[str, Any],
        *,
        key: str | None = None,
        trace_id: str | None = None,
    ) -> "Outcome":
        """Call a tool. What is refused, fails or has to wait is an outcome, not an exception.

        Args:
            tool_id: The tool, as `list` names it.
            arguments: What it is given.
            key: Makes it the same call as others with this key, which is done once.
            trace_id: The trace of an earlier call that waited, as `Pending` has it, to go on with that call.
        """
        context = self._opened.context
        # An approval holds for one trace, so a call that waited has to be made under
        # its own again.
        context = structs.replace(
            context, trace_id=trace_id or context.trace_id, key=key
        )
        return await self._opened.registry.call(tool_id, arguments, context)


class ProjectInbox:
    """The actions that wait for a person in a project, and the answers to them."""

    def __init__(self, session: Session, context: "CallContext") -> None:
        self._session = session
        self._context = context

    @cached_property
    def _inbox(self) -> "Inbox":
        with needing_extra("tools"):
            from agent_resolver.project.tools import inbox_of

            return inbox_of(self._session)

    async def list(self, *, everything: bool = False) -> list[PendingAction]:
        """The actions that wait and concern the caller, oldest first; with `everything`, all that ever waited."""
        # Looking at a state that is not there must not make it.
        return (
            await self._inbox.list(self._context, is_everything=everything)
            if self._session.has_state
            else []
        )

    async def show(self, action_id: str) -> PendingAction:
        """One action.

        Raises:
            AnswerRefused: None with this id concerns the caller.
        """
        return await self._inbox.show(action_id, self._context)

    async def approve(self, action_id: str, reason: str | None = None) -> PendingAction:
        """Approve a call, so that the same call passes once.

        Raises:
            AnswerRefused: The caller may not, or nothing waits under this id.
            ValueError: The reason is empty or too long.
        """
        return await self._decide(action_id, "approved", reason)

    async def reject(self, action_id: str, reason: str | None = None) -> PendingAction:
        """Reject a call.

        Raises:
            AnswerRefused: As for `approve`.
            ValueError: The reason is empty or too long.
        """
        return await self._decide(action_id, "rejected", reason)

    async def answer(self, action_id: str, words: str) -> PendingAction:
        """Answer a question.

        Raises:
            AnswerRefused: As for `approve`.
            ValueError: The answer is empty or too long.
        """
        return await self._inbox.answer(action_id, _checked_words(words), self._context)

    async def _decide(
        self, action_id: str, verdict: "Verdict", reason: str | None
    ) -> PendingAction:
        checked = None if reason is None else _checked_words(reason)
        return await self._inbox.decide(action_id, verdict, self._context, checked)


def _checked_words(words: str) -> str:
    from agent_resolver.registry.inbox import MAX_WORDS

    if not words.strip() or len(words) > MAX_WORDS:
        raise ValueError(f"An answer or a reason has 1 to {MAX_WORDS:,} characters")
    words.encode()  # Raises `UnicodeEncodeError`, which is a `ValueError`, for what cannot be kept.
    return words
