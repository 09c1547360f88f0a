"""The errors of tasks.

ResolverError
├── RefusedEnvironment   a task may not act there
└── TaskRefused          something is asked of a task that it does not allow
    ├── UnknownTask      there is no such task that concerns the caller
    ├── TaskTaken        another process works on the task
    │   └── TaskLost     and took it from this one
    ├── TooLarge         something is larger than what a task keeps
    └── DamagedTask      what is kept of the task cannot be read
"""

from agent_resolver.schema.errors import ResolverError


class TaskRefused(ResolverError):
    """Something is asked of a task that it does not allow."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UnknownTask(TaskRefused):
    """There is no such task, or it does not concern the caller: the two are not told apart."""

    def __init__(self, task: str) -> None:
        super().__init__(
            f"There is no task {task[:100]}",
            "`agent task list` shows those that there are",
        )


class TaskTaken(TaskRefused):
    """Another process works on the task."""

    def __init__(self, task: str) -> None:
        super().__init__(
            f"Another process works on task {task}",
            "wait until it is done: `agent task show`",
        )


class TaskLost(TaskTaken):
    """Another process took the task while this one worked on it: this one was frozen or cut off for too long."""


class TooLarge(TaskRefused):
    """A draft, an argument or a result is larger than what a task keeps."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"What a task keeps has at most {limit:,} bytes, and this has {size:,}"
        )


class DamagedTask(TaskRefused):
    """The kept state of a task was edited, or was sealed with another key."""

    def __init__(self, task: str, problem: str) -> None:
        message = f"Task {task} cannot be read: {problem}"
        super().__init__(
            message,
            "put back the state and its key; `agent audit verify` checks the trail",
        )


class RefusedEnvironment(ResolverError):
    """A task may not act in this environment; the message says why, and the hint what would let it."""

    def __init__(self, environment: str, problem: str, hint: str) -> None:
        super().__init__(f"A task cannot act in `{environment}`: {problem}")
        self.environment = environment
        self.hint = hint
