"""A workflow of another user of the server, which asks our activities for something in their own words."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

ORDER = b'{"run": "run-1", "state": "", "segment": "run-1:1.x", "wave": "a", "count": 1}'


@workflow.defn(name="foreign")
class ForeignWorkflow:
    """Asks once, and returns how that ended."""

    @workflow.run
    async def run(self, activity: str, queue: str) -> str:
        """Ask an activity on a queue."""
        try:
            await workflow.execute_activity(
                activity,
                ORDER,
                task_queue=queue,
                start_to_close_timeout=timedelta(seconds=10),
                retry_policy=RetryPolicy(maximum_attempts=1),
            )
        except ActivityError as error:
            return "refused" if isinstance(error.cause, ApplicationError) else type(error.cause).__name__
        return "obeyed"
