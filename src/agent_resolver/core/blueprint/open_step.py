"""Steps that have started: which of their tasks come next, and what these returned."""

from collections.abc import Iterable
from typing import Any

from agent_resolver.core.blueprint.path import item_path
from agent_resolver.core.blueprint.prepared_blueprint import PreparedStep
from agent_resolver.core.blueprint.task import Task


class OpenStep:
    """A step between its start and its end."""

    def __init__(self, step: PreparedStep, items: list[Any] | None) -> None:
        """Begin a step, or with a list of items a fan-out."""
        self.step = step
        self._items = items
        self._batch_size = step.fan_out.batch_size if step.fan_out else 1
        self._started = 0
        self._results: list[Any] = [None] if items is None else [None] * len(items)

    @property
    def is_all_started(self) -> bool:
        """True if no task is left to start."""
        return self._started == len(self._results)

    @property
    def result(self) -> Any:  # noqa: ANN401 - a JSON value
        """The result of the step: for a fan-out the list of the results of its items."""
        if self._items is None:
            return self._results[0]
        return self._results

    def keep(self, task: Task, result: Any) -> None:  # noqa: ANN401 - a JSON value
        """Keep what a task returned."""
        # A step without items has the index -1, and one place for its result.
        self._results[max(task.index, 0)] = result

    def next_tasks(self, most: int) -> list[Task]:
        """Start the next tasks, as many as the step takes together, and at most this many."""
        first = self._started
        # Three bounds: the batch of the step, what the wave has left, and what is still
        # to be started.
        end = min(first + self._batch_size, first + most, len(self._results))
        self._started = end
        step = self.step
        if self._items is None:
            return [Task(step, step.id)] if end > first else []
        return [
            Task(step, item_path(step.id, index), index, self._items[index])
            for index in range(first, end)
        ]


def next_tasks(steps: Iterable[OpenStep], max_calls: int) -> list[Task]:
    """Start the next tasks of some steps, given in the order of their ids: all that one wave can take."""
    tasks: list[Task] = []
    calls_left = max_calls
    for opened in steps:
        # A wait takes nothing but a row, so it does not count as a call.
        is_wait = opened.step.wait is not None
        started = opened.next_tasks(max_calls if is_wait else calls_left)
        calls_left -= 0 if is_wait else len(started)
        tasks += started
    return tasks
