"""Rate limits: counts uses in the last minute, over all processes that share the store."""

import time
from collections.abc import Callable

from msgspec import structs

from agent_resolver.core.rate import is_outside_window, seconds_to_wait
from agent_resolver.schema.state import RATES, RateUse
from agent_resolver.storage.joint_writer import JointWriter
from agent_resolver.storage.port import Store, Transaction


class RateLimits:
    """A sliding window for each subject."""

    def __init__(self, store: Store, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now = now

    async def take(
        self,
        subject: str,
        per_minute: float,
        writer: JointWriter | None = None,
    ) -> float:
        """Count one use, or say for how many seconds there is none left; 0 means it was counted."""
        # The time is read once, outside of the work, which the store may run again.
        now = self._now()

        def count(transaction: Transaction) -> float:
            uses = transaction.find(RATES, {"subject": subject})
            wait = seconds_to_wait((use.at for use in uses), per_minute, now)
            for use in uses:
                if is_outside_window(use.at, now):
                    transaction.drop(RATES, subject, use.number)
                # A clock that was set back must not block the subject until it has
                # caught up.
                elif use.at > now:
                    transaction.put(RATES, structs.replace(use, at=now))
            if not wait:
                number = max((use.number for use in uses), default=0) + 1
                transaction.put(RATES, RateUse(subject=subject, number=number, at=now))
            return wait

        return await (writer or self._store).write(count)
