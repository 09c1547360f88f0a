"""The workflow alone, over many histories: nothing but signals moves it, since its run waits for ever."""

import asyncio
from typing import Any, Final

from temporalio import activity
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.client import Client
from temporalio.worker import Worker, WorkerDeploymentConfig, WorkerDeploymentVersion

from agent_resolver.engine.temporal_carrier import workflow_sandbox
from agent_resolver.engine.temporal_deployment import set_current_version
from agent_resolver.engine.temporal_message import BUILD_ID, TAKE, WAKE, WORKFLOW, Carried, Rest, encode
from agent_resolver.engine.temporal_workflow import BlueprintWorkflow
from tests.temporal.places import client_of
from tests.temporal_server import TemporalServer

NAME: Final = "agent-tests-continuation"
"""The id of the workflow, and its queue."""
BURSTS: Final = (1, 2, 3, 10, 84) * 5
"""The signals that are sent one right after the other, 500 in all. The last may come during a rest, a look or a change
of histories."""
MOST_EVENTS: Final = 50
"""So few that histories change ten times and more. The server lets a second pass before each of the next."""
CONTINUED: Final = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
SIGNALLED: Final = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED


@activity.defn(name=TAKE)
async def take_nothing(_order: bytes) -> bytes:
    """A look at a run that waits until it is signalled: no time and no worker lets the workflow look again."""
    return encode(Rest())


class Histories:
    """The events of the histories of a workflow, from the first one to the one that is under way."""

    def __init__(self, client: Client, first: str) -> None:
        self._client = client
        self._runs = [first]
        self.events: list[list[Any]] = [[]]

    async def refresh(self) -> None:
        """Read the newest one again, and all that came after it."""
        while True:
            handle = self._client.get_workflow_handle(NAME, run_id=self._runs[-1])
            self.events[-1] = [event async for event in handle.fetch_history_events()]
            last = self.events[-1][-1]
            if last.event_type != CONTINUED:
                return
            self._runs.append(last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id)
            self.events.append([])

    def has_looked_since(self, sent: int) -> bool:
        """True if so many signals have come, and a look was asked for behind the last one and has begun."""
        received: int = sum(event.event_type == SIGNALLED for events in self.events for event in events)
        signals: list[int] = [event.event_id for event in self.events[-1] if event.event_type == SIGNALLED]
        looks: list[int] = [
            event.activity_task_started_event_attributes.scheduled_event_id for event in self.events[-1]
        ]
        return received == sent and max(looks) > max(signals, default=0)

    def failures(self) -> set[str]:
        """The reasons for which steps of the workflow itself failed."""
        causes = {event.workflow_task_failed_event_attributes.cause for events in self.events for event in events}
        return {WorkflowTaskFailedCause.Name(cause) for cause in causes if cause}


def test_no_signal_is_lost_where_a_history_ends_and_another_begins(server: TemporalServer) -> None:
    """After each burst, a look at the run begins behind the last signal."""

    async def story() -> Histories:
        client = await client_of(server)
        version = WorkerDeploymentVersion(NAME, BUILD_ID)
        worker = Worker(
            client,
            task_queue=NAME,
            workflows=[BlueprintWorkflow],
            activities=[take_nothing],
            workflow_runner=workflow_sandbox(),
            deployment_config=WorkerDeploymentConfig(version, use_worker_versioning=True),
        )
        async with worker, asyncio.timeout(120):
            await set_current_version(client, NAME, BUILD_ID)
            carried = encode(Carried(run="run-1", state="tests", most_events=MOST_EVENTS))
            started = await client.start_workflow(WORKFLOW, carried, id=NAME, task_queue=NAME)
            # This one is for whichever history is under way.
            handle = client.get_workflow_handle(NAME)
            histories = Histories(client, started.first_execution_run_id or "")
            for number, burst in enumerate(BURSTS, 1):
                for _ in range(burst):
                    await handle.signal(WAKE, "")
                while not histories.has_looked_since(sum(BURSTS[:number])):
                    await asyncio.sleep(0.05)
                    await histories.refresh()
            await handle.terminate()
        return histories

    histories = asyncio.run(story())

    assert len(histories.events) > 10
    assert {events[-1].event_type for events in histories.events[:-1]} == {CONTINUED}
    # Where a signal comes while a history ends, the server has the workflow hear it first.
    assert histories.failures() <= {"WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND"}
