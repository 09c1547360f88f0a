"""Records of steps that DBOS gets a moment late, many in one transaction.

The state has the result of a step before DBOS is given a record of it, so that a record only saves another process from
asking the ledger again. A run therefore does not wait for its records. They are written while its calls are under way,
and those of a segment that has come to its end, which no process ever takes up again, are not written at all.
"""

import asyncio
import contextvars
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from agent_resolver.engine.dbos_serializer import NAME, SealedText

if TYPE_CHECKING:
    from sqlalchemy import Connection

LAG_SECONDS: Final = 0.05
"""How long the records of steps wait for others to share a transaction with."""


class StepRecord(Struct, frozen=True, kw_only=True):
    """The result of one step, as DBOS keeps it."""

    number: int
    """The place of the step in its segment, from 1, in the order in which steps begin."""
    name: str
    began: int
    """When the step began, in milliseconds since 1970."""
    ended: int
    result: SealedText


class SegmentRecords:
    """The records of one segment that began in this process."""

    def __init__(self, recorder: "Recorder", segment: str, owner: str) -> None:
        """No record yet.

        Args:
            recorder: Writes them.
            segment: The id of the segment.
            owner: The token by which DBOS knows who may record steps of the segment.
        """
        self.segment = segment
        self.owner = owner
        self.waiting: list[StepRecord] = []
        """The records that are not written yet."""
        self.failure: BaseException | None = None
        """Set once records could not be written: the segment must not go on here."""
        self._recorder = recorder
        self._count = 0

    def begin_step(self) -> int:
        """The number of a step that begins now."""
        self._count += 1
        return self._count

    def add(self, number: int, name: str, began: float, result: SealedText) -> None:
        """Have a record written soon."""
        record = StepRecord(
            number=number,
            name=name,
            began=_milliseconds(began),
            ended=_milliseconds(time.time()),
            result=result,
        )
        self.waiting.append(record)
        self._recorder.expect(self)

    def drop(self) -> None:
        """Leave out what is not written yet: the segment has come to its end, and is never taken up again."""
        self.waiting.clear()


class Recorder:
    """Writes the records of all segments that began in this process."""

    def __init__(self, lag_seconds: float = LAG_SECONDS) -> None:
        self._lag_seconds = lag_seconds
        self._expected: dict[str, SegmentRecords] = {}
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    def expect(self, records: SegmentRecords) -> None:
        """Write what waits of a segment, after a moment in which more may come."""
        self._expected[records.segment] = records
        if self._task is None:
            # With the context of a segment, DBOS would take the writing for a part of
            # it.
            self._task = asyncio.create_task(
                self._write_later(), context=contextvars.Context()
            )

    async def flush(self) -> None:
        """Write everything that waits, before the place is closed."""
        await self._write_expected()
        # Nothing is left to write, and the task would only sleep.
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _write_later(self) -> None:
        try:
            while self._expected:
                await asyncio.sleep(self._lag_seconds)
                await self._write_expected()
        finally:
            self._task = None

    async def _write_expected(self) -> None:
        # One batch at a time: `flush` must not return while another one is being
        # written.
        async with self._lock:
            batch = []
            for records in self._expected.values():
                # Swapped, so that records that come while this batch is written go into
                # the next one.
                taken, records.waiting = records.waiting, []
                # After a record that failed, further ones would leave a gap in the
                # steps of the segment.
                if taken and records.failure is None:
                    batch.append((records, taken))
            self._expected.clear()
            if batch:
                await asyncio.to_thread(_write, batch)


_Batch = Sequence[tuple[SegmentRecords, list[StepRecord]]]


def _write(batch: _Batch) -> None:
    """Write the records of segments together; if that fails, each segment alone, so that each fails for itself."""
    try:
        _commit(batch)
    except BaseException:  # noqa: BLE001 - some errors of DBOS are no `Exception`
        for records, taken in batch:
            try:
                _commit([(records, taken)])
            except BaseException as error:  # noqa: BLE001 - as above; the next step of the segment raises it
                records.failure = error


def _commit(batch: _Batch) -> None:
    from dbos import _dbos
    from dbos._sys_db import db_retry

    database: Any = _dbos._get_dbos_instance()._sys_db  # noqa: SLF001 - no public call records several steps

    @db_retry(sys_db=database)
    def commit() -> None:
        with database.engine.begin() as connection:
            for records, taken in batch:
                _insert(database, connection, records, taken)

    commit()


def _insert(
    database: Any,  # noqa: ANN401 - of DBOS
    connection: "Connection",
    records: SegmentRecords,
    taken: Sequence[StepRecord],
) -> None:
    # Once for all: nothing else can take the segment over before the transaction ends.
    database._check_owner_txn(connection, records.segment, records.owner)  # noqa: SLF001 - as above
    for record in taken:
        result = {
            "workflow_uuid": records.segment,
            "function_id": record.number,
            "function_name": record.name,
            "output": record.result,
            "error": None,
            "serialization": NAME,
            "started_at_epoch_ms": record.began,
            "child_workflow_id": None,
        }
        database._record_operation_result_txn(result, record.ended, connection)  # noqa: SLF001 - as above


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
