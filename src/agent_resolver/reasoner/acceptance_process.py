"""Runs the acceptance tests of a draft in a process of its own, which can do nothing but compute.

Recorded results stand for every call, so that a draft has no effect by its nature. The process is for what goes wrong
beyond that: a draft that never ends, exhausts the memory, or crashes a library ends as a failed test, and the process
of the task goes on. One process runs all tests of a draft, with an empty environment, in an empty folder.
"""

import asyncio
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import msgspec
from msgspec import Struct

from agent_resolver.core.count import counted
from agent_resolver.core.shorten import shorten
from agent_resolver.reasoner.acceptance_message import TestJob, TestTool
from agent_resolver.reasoner.port import AcceptanceRun
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.planning import Isolation, TestResult

_PACKAGES: Final = str(Path(__file__).parents[2])
_START: Final = (
    "import sys; sys.path.append(sys.argv[1]); from "
    "agent_resolver.reasoner.acceptance_child import main; main()"
)
_MAX_JOB_BYTES: Final = 16_000_000
_MAX_MESSAGE: Final = 500
# A draft that exhausts its memory or its stack brings about one of these signals, and
# not an exception.
_CRASHES: Final = frozenset({signal.SIGABRT, signal.SIGILL, signal.SIGSEGV})


class AcceptanceBounds(Struct, frozen=True, kw_only=True):
    """Bounds on what the tests of one draft may use, all together."""

    seconds: int = 10
    memory_bytes: int = 768 * 1024 * 1024
    """The address space of the process, of which the interpreter takes a part."""
    output_bytes: int = 1_000_000


class IsolatedAcceptance:
    """An `AcceptanceRunner` with a confined process for each draft."""

    def __init__(
        self, bounds: AcceptanceBounds | None = None, interpreter: str = sys.executable
    ) -> None:
        self._bounds = bounds or AcceptanceBounds()
        self._interpreter = interpreter

    async def run(
        self, blueprint: Blueprint, tools: Mapping[str, Descriptor]
    ) -> AcceptanceRun:
        """Run every acceptance test; one that does not end by itself fails, and so do those after it."""
        # A draft without tests breaks a rule of Ops in any case, so that no process is
        # started for it.
        if not blueprint.acceptance_tests:
            return AcceptanceRun(tests=(), isolation="none")
        try:
            job = msgspec.json.encode(self._job(blueprint, tools))
        except RecursionError:
            return _completed(
                blueprint,
                "none",
                (),
                "The draft or a schema of its tools nests too deeply to be tried",
            )
        if len(job) > _MAX_JOB_BYTES:
            reason = f"The draft and the schemas of its tools are larger than {_MAX_JOB_BYTES:,} bytes"
            return _completed(blueprint, "none", (), reason)
        child = _Child(self._bounds, self._interpreter)
        try:
            lines, reason = await asyncio.to_thread(child.run, job)
        finally:
            # The task may have been cancelled, and would leave the process to its own
            # bounds.
            child.kill()
        isolation, tests = _read_lines(lines)
        return _completed(blueprint, isolation, tests, reason)

    def _job(self, blueprint: Blueprint, tools: Mapping[str, Descriptor]) -> TestJob:
        # The job has only the tools that the draft calls: a project may have a
        # thousand, and the job is bounded in size.
        used = {step.capability for step in blueprint.dag.steps}
        known = [tool for name, tool in sorted(tools.items()) if name in used]
        return TestJob(
            blueprint=blueprint,
            tools=tuple(
                TestTool(
                    id=tool.id,
                    input_schema=tool.input_schema,
                    output_schema=tool.output_schema,
                )
                for tool in known
            ),
            seconds=self._bounds.seconds,
            memory_bytes=self._bounds.memory_bytes,
            output_bytes=self._bounds.output_bytes,
        )


class _Child:
    """One process, from its start to its certain end."""

    def __init__(self, bounds: AcceptanceBounds, interpreter: str) -> None:
        self._bounds = bounds
        self._interpreter = interpreter
        self._process: subprocess.Popen[bytes] | None = None
        self._is_unwanted = False

    def run(self, job: bytes) -> tuple[bytes, str]:
        """Give the process its job, and wait for its end.

        Returns:
            What it wrote, and why it did not write more; the reason is empty for a process that ended by itself.
        """
        try:
            with tempfile.TemporaryDirectory(
                prefix="agent-test-", ignore_cleanup_errors=True
            ) as folder:
                return self._run_in(folder, job)
        except OSError as error:
            return b"", f"No process can be started for it: {error.strerror or error}"

    def _run_in(self, folder: str, job: bytes) -> tuple[bytes, str]:
        # Files, and no pipes: the size of a file is bounded, and neither side waits for
        # the other.
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as written:
            given.write(job)
            given.seek(0)
            process = self._start(folder, given, written)
            with suppress(OSError):
                # The process is in it: now it can make nothing there, and nothing stays
                # if we are killed.
                Path(folder).rmdir()
            is_ended = _wait(process, self._bounds.seconds)
            self.kill()
            process.wait()
            written.seek(0)
            lines = written.read(self._bounds.output_bytes)
        return lines, _reason_of(
            process.returncode, self._bounds
        ) if is_ended else _too_slow(self._bounds)

    def _start(
        self,
        folder: str,
        given: IO[bytes],
        written: IO[bytes],
    ) -> "subprocess.Popen[bytes]":
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter, with our own words
            [self._interpreter, "-I", "-c", _START, _PACKAGES, str(os.getpid())],
            stdin=given,
            stdout=written,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={},
            start_new_session=True,
        )
        if self._is_unwanted:
            # The task was cancelled before there was a process to end.
            self.kill()
        return self._process

    def kill(self) -> None:
        """End the process, and whatever it started; one that is not there yet ends as soon as it is."""
        self._is_unwanted = True
        process = self._process
        # Once it is collected, its id may be that of another one.
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)


def _wait(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """Wait for the end of a process; False if it takes longer."""
    try:
        # `Popen.wait` would look every 50 milliseconds. This does not collect the
        # process: its id stays its own.
        watched = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        # Another system than Linux, or an old one.
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.returncode is not None
    try:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(watched)


def _reason_of(code: int, bounds: AcceptanceBounds) -> str:
    """The reason why a process ended early; empty if it ended by itself."""
    if code == 0:
        return ""
    # The process has a limit on processor time as well. Windows has no such signal.
    if code == -getattr(signal, "SIGXCPU", 0):
        return _too_slow(bounds)
    if -code in _CRASHES:
        # A library that gets no more memory ends the process this way as well.
        limit = f"{bounds.memory_bytes // 1024**2} MB"
        return f"Its process crashed ({_signal_name(-code)}): it exhausted its {limit} of memory, or its stack"
    if code < 0:
        return f"Its process was ended by the signal {_signal_name(-code)}"
    return f"Its process ended with the exit code {code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _too_slow(bounds: AcceptanceBounds) -> str:
    return f"It did not end within {counted(bounds.seconds, 'second')}"


def _read_lines(lines: bytes) -> tuple[Isolation, tuple[TestResult, ...]]:
    """The isolation that the process reported, and the results that it wrote in full."""
    isolation: Isolation = "process"
    tests: list[TestResult] = []
    # What follows the last line end was not written in full.
    for number, line in enumerate(lines.split(b"\n")[:-1]):
        try:
            if number == 0:
                isolation = msgspec.json.decode(line, type=Isolation)
            else:
                tests.append(msgspec.json.decode(line, type=TestResult))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            break
    return isolation, tuple(tests)


def _completed(
    blueprint: Blueprint,
    isolation: Isolation,
    tests: tuple[TestResult, ...],
    reason: str,
) -> AcceptanceRun:
    """The results of all tests, in their order: the one that did not end has its reason, those after it did not run."""
    found: list[TestResult] = []
    for place, test in enumerate(blueprint.acceptance_tests):
        # The output comes from a process that ran a draft: a result that is not for
        # this test does not count.
        if place < len(tests) and tests[place].name == test.name:
            found.append(tests[place])
            continue
        message = reason or "Its process ended without a result"
        if place > len(tests):
            message = f"Not run: the test before it did not end. {message}"
        found.append(
            TestResult(
                name=test.name, passed=False, message=shorten(message, _MAX_MESSAGE)
            )
        )
    return AcceptanceRun(tests=tuple(found), isolation=isolation)
