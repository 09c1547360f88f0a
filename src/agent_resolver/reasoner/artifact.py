"""Keeps what the state of a task refers to by its digest: drafts, evaluations, arguments, results."""

from typing import Any, Final, TypeVar

import msgspec

from agent_resolver.reasoner.errors import DamagedTask, TooLarge
from agent_resolver.reasoner.sealed_purpose import artifact_purpose
from agent_resolver.registry.port import Seal
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.state import ARTIFACTS, ArtifactRow
from agent_resolver.storage.port import Lease, Store, Transaction

MAX_BYTES: Final = 1_000_000
Value = TypeVar("Value")


class Artifacts:
    """The contents of tasks, sealed. A content is found by its digest, so that writing it twice changes nothing."""

    def __init__(self, store: Store, seal: Seal) -> None:
        self._store = store
        self._seal = seal

    async def keep(self, task: str, value: object, lease: Lease | None = None) -> str:
        """Keep a value for a task, and return its digest.

        Raises:
            TooLarge: The value is too large.
            LeaseLost: Another process works on the task.
        """
        # Keys are sorted, so that equal values have equal bytes and one digest.
        content = msgspec.json.encode(value, order="sorted")
        if len(content) > MAX_BYTES:
            raise TooLarge(len(content), MAX_BYTES)
        reference = digest(value)
        body = self._seal.close(content, artifact_purpose(task, reference))

        def put(transaction: Transaction) -> None:
            if lease is not None:
                # A process that lost the task must not write what the next owner of the
                # task would then refer to.
                transaction.require(lease)
            transaction.put(
                ARTIFACTS,
                ArtifactRow(task=task, digest=reference, body=body),
                only_new=True,
            )

        await self._store.write(put)
        return reference

    async def load(self, task: str, reference: str, kind: type[Value]) -> Value:
        """The value that was kept under a digest.

        Raises:
            DamagedTask: It is not there, was edited, or is not of this kind.
        """
        row = await self._store.read(
            lambda snapshot: snapshot.get(ARTIFACTS, task, reference)
        )
        if row is None:
            raise DamagedTask(task, f"{reference} is missing")
        try:
            return msgspec.json.decode(
                self._seal.open(row.body, artifact_purpose(task, reference)), type=kind
            )
        except (ValueError, msgspec.ValidationError) as error:
            raise DamagedTask(task, f"{reference}: {error}") from error

    async def plain(self, task: str, reference: str) -> Any:  # noqa: ANN401 - a JSON value
        """The value that was kept under a digest, as JSON.

        Raises:
            DamagedTask: It is not there, or was edited.
        """
        value: Any = await self.load(task, reference, object)
        return value
