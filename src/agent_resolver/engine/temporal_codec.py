"""Seals everything that Temporal keeps, and keeps what is large in the store."""

import hashlib
from collections.abc import Sequence
from typing import Final, Self

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverterWithEncodedAttributes,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
)

from agent_resolver.engine.errors import EditedRecord
from agent_resolver.engine.temporal_place import payload_purpose
from agent_resolver.registry.port import Seal
from agent_resolver.schema.state import ARTIFACTS, ArtifactRow
from agent_resolver.storage.port import Store

MAX_INLINE_BYTES: Final = 32 * 1024
"""The largest payload that Temporal keeps itself.

It takes 4 MB in one message at most, and a wave has up to 100 calls: together their payloads must fit.
"""
_SEALED: Final = b"agent/sealed"
_REFERENCE: Final = b"agent/reference"
_ENCODING: Final = "encoding"


class SealedCodec(PayloadCodec, WithSerializationContext):
    """Seals payloads for the workflow that they belong to, so that none can take the place of another run's."""

    def __init__(
        self,
        store: Store,
        seal: Seal,
        prefix: str,
        workflow_id: str = "",
    ) -> None:
        """A codec.

        Args:
            store: Keeps what is large.
            seal: That of the project.
            prefix: What the ids of workflows begin with; the id of the run follows.
            workflow_id: The workflow that payloads belong to; empty where they belong to none.
        """
        self._store = store
        self._seal = seal
        self._prefix = prefix
        self._workflow_id = workflow_id

    def with_context(self, context: SerializationContext) -> Self:
        """The same codec for the payloads of one workflow."""
        # Payloads may belong to something else than a workflow.
        workflow_id = getattr(context, "workflow_id", None) or ""
        return type(self)(self._store, self._seal, self._prefix, workflow_id)

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """The payloads as Temporal keeps them."""
        return [await self._encode(payload.SerializeToString()) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """The payloads again.

        Raises:
            EditedRecord: One is not what this program wrote for this workflow.
        """
        return [await self._decode(payload) for payload in payloads]

    async def _encode(self, content: bytes) -> Payload:
        if len(content) > MAX_INLINE_BYTES:
            # By reference: the digest is sealed with it, and what it refers to is
            # sealed for its place.
            reference = await self._keep(content)
            return self._sealed(reference.encode(), _REFERENCE)
        return self._sealed(content, _SEALED)

    async def _decode(self, payload: Payload) -> Payload:
        encoding = payload.metadata.get(_ENCODING, b"")
        # What is not sealed was not written by this program: it is never taken for the
        # word of a worker.
        if encoding not in {_SEALED, _REFERENCE}:
            raise EditedRecord
        try:
            content = self._seal.open(payload.data, self._purpose(encoding))
        except ValueError as error:
            raise EditedRecord from error
        if encoding == _REFERENCE:
            content = await self._fetch(content.decode())
        return Payload.FromString(content)

    def _sealed(self, content: bytes, encoding: bytes) -> Payload:
        return Payload(
            metadata={_ENCODING: encoding},
            data=self._seal.close(content, self._purpose(encoding)),
        )

    def _purpose(self, encoding: bytes) -> str:
        # The purpose has the encoding in it, so that a reference cannot be passed off
        # as a content.
        return f"temporal/{encoding.decode()}/{self._workflow_id}"

    @property
    def _run(self) -> str:
        return self._workflow_id.removeprefix(self._prefix)

    async def _keep(self, content: bytes) -> str:
        run = self._run
        reference = f"temporal-{hashlib.sha256(content).hexdigest()}"
        body = self._seal.close(content, payload_purpose(run, reference))
        row = ArtifactRow(task=run, digest=reference, body=body)
        # Found by its digest, so that a payload which is sent again is there already.
        await self._store.write(
            lambda transaction: transaction.put(ARTIFACTS, row, only_new=True)
        )
        return reference

    async def _fetch(self, reference: str) -> bytes:
        run = self._run
        row = await self._store.read(
            lambda snapshot: snapshot.get(ARTIFACTS, run, reference)
        )
        if row is None:
            raise EditedRecord
        try:
            return self._seal.open(row.body, payload_purpose(run, reference))
        except ValueError as error:
            raise EditedRecord from error


def sealed_converter(codec: SealedCodec) -> DataConverter:
    """How the worker and its client write everything: payloads, and the words and traces of failures."""
    return DataConverter(
        payload_codec=codec,
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
    )
