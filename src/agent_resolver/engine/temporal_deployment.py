"""The matters that a worker settles with the Temporal server before it takes up its first run."""

import asyncio
import random
import re
from typing import Final

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeTaskQueueRequest,
    DescribeWorkerDeploymentRequest,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from agent_resolver.engine.errors import EngineRefused
from agent_resolver.engine.temporal_place import TemporalPlace

_PAUSE_SECONDS: Final = 0.1
_NOT_YET: Final = frozenset(
    {RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION}
)
"""What the server says of workers that it has not heard of yet."""
_TOO_MANY: Final = frozenset(
    {RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.ABORTED, RPCStatusCode.UNAVAILABLE}
)
"""What it says where many workers begin at the same time."""
_LONG_PAUSE_SECONDS: Final = 1.0


async def require_namespace(client: Client) -> None:
    """Refuse to work in a namespace that the server does not have.

    Raises:
        EngineRefused: There is none of this name.
        RPCError: The server refused, or could not be reached.
    """
    try:
        await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=client.namespace)
        )
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        hint = f"`temporal operator namespace create --namespace {client.namespace}`, or set `engine.namespace`"
        raise EngineRefused(
            f"The Temporal server has no namespace `{client.namespace}`", hint
        ) from None


async def set_current_version(client: Client, deployment: str, build: str) -> bool:
    """Let the server dispatch runs to workers of this build; False if those of a newer one are current.

    Without a current version, the server dispatches nothing. A worker that begins has polled a moment ago, and the
    server may not have heard of it yet. The caller bounds how long.
    """
    while True:
        pause = _PAUSE_SECONDS
        try:
            request = DescribeWorkerDeploymentRequest(
                namespace=client.namespace, deployment_name=deployment
            )
            found = await client.workflow_service.describe_worker_deployment(request)
            info = found.worker_deployment_info
            current = info.routing_config.current_deployment_version.build_id
            if current == build:
                return True
            # An older build must not take the dispatch back from a newer one.
            if current and _order_of(current) > _order_of(build):
                return False
            known = {
                summary.deployment_version.build_id
                for summary in info.version_summaries
            }
            if build in known:
                await _set_current(client, deployment, build, found.conflict_token)
                # The answer is looked for at once: another worker may have set a
                # version in the same moment.
                continue
        except RPCError as error:
            if error.status in _TOO_MANY:
                pause = _LONG_PAUSE_SECONDS
            elif error.status not in _NOT_YET:
                raise
        # In no order, so that workers that began together do not come together again.
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - not a secret


async def _set_current(
    client: Client,
    deployment: str,
    build: str,
    token: bytes,
) -> None:
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace=client.namespace,
        deployment_name=deployment,
        build_id=build,
        # Of two workers that do this at once, the one that comes later looks again.
        conflict_token=token,
        identity=client.identity,
        ignore_missing_task_queues=True,
    )
    await client.workflow_service.set_worker_deployment_current_version(request)


async def require_one_machine(client: Client, place: TemporalPlace) -> bool:
    """Refuse a worker beside one of another machine: their states are two files, and each knows half of the runs.

    Returns:
        True if the server knows of a worker of this machine.

    Raises:
        EngineRefused: One of another machine has polled within the last minutes.
        RPCError: The server refused, or could not be reached.
    """
    of_workflows, of_activities = [
        await _polling_machines(client, place.queue, kind)
        for kind in (
            TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
            TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
        )
    ]
    others = sorted((of_workflows | of_activities) - {place.machine})
    if others:
        problem = (
            f"A worker of another machine, {others[0]}, drives the runs of this project"
        )
        hint = "workers on several machines need a state that they share: set `state.url` to a Postgres database"
        raise EngineRefused(problem, hint)
    # One kind for all: of two machines, each could find itself under another kind and
    # miss the other.
    return place.machine in of_activities


async def stay_on_one_machine(client: Client, place: TemporalPlace) -> None:
    """The same for a worker that has begun to poll. The caller bounds how long.

    It looks until it finds its own machine, or another one and is refused. Of two machines that begin together, the one
    that looks last finds the other.

    Raises:
        EngineRefused: A worker of another machine has polled within the last minutes.
        RPCError: The server refused, or could not be reached.
    """
    while not await require_one_machine(client, place):  # noqa: ASYNC110 - it is about the server
        await asyncio.sleep(_PAUSE_SECONDS)


async def _polling_machines(
    client: Client,
    queue: str,
    kind: TaskQueueType.ValueType,
) -> set[str]:
    """The machines whose workers have polled a queue within the last minutes.

    The server lists only some of the workers that poll at the same time.
    """
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=queue),
        task_queue_type=kind,
    )
    found = await client.workflow_service.describe_task_queue(request)
    machines = {poller.identity.rpartition("/")[0] for poller in found.pollers}
    # A poller whose name has no machine in it is not a worker of ours.
    return machines - {""}


def _order_of(build: str) -> tuple[int, ...]:
    # As numbers: compared as texts, build 10 would come before build 9.
    return tuple(int(number) for number in re.findall("[0-9]+", build))
