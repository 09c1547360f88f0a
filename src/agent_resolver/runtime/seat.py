"""A model that may answer, and what answers for it; of a pool, one seat for each member."""

from collections.abc import AsyncIterator, Iterator

from msgspec import Struct, structs

from agent_resolver.runtime.breaker import Breakers
from agent_resolver.runtime.executor import InferenceFailure, LlmExecutor, close_stream
from agent_resolver.runtime.inference import ChatAnswer, ChatRequest, Piece, Restarted
from agent_resolver.runtime.model import ModelPool, ModelSpec


class Seat(Struct, frozen=True):
    """A model that may answer, and what answers for it."""

    model: ModelSpec
    """With what its provider knows of it."""
    executor: LlmExecutor

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The answer of this model."""
        answer = await self.executor.complete(self._addressed(request))
        return structs.replace(answer, model_id=self.model.id)

    async def stream(self, request: ChatRequest) -> AsyncIterator[Piece]:
        """The answer of this model in pieces."""
        pieces = self.executor.stream(self._addressed(request))
        try:
            async for piece in pieces:
                is_whole = isinstance(piece, ChatAnswer)
                yield (
                    structs.replace(piece, model_id=self.model.id)
                    if is_whole
                    else piece
                )
        finally:
            await close_stream(pieces)

    def _addressed(self, request: ChatRequest) -> ChatRequest:
        """The request under the name that the provider has for this model."""
        if request.model == self.model.upstream_model:
            return request
        return structs.replace(request, model=self.model.upstream_model)


class PooledExecutor(Struct, frozen=True):
    """The members of a pool in the order in which an agent tries them.

    Each seat tries again by itself. The next one is asked once a seat has given up, if the pool switches on that.
    """

    pool: ModelPool
    seats: tuple[Seat, ...]
    breakers: Breakers

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The answer of the first member that gives one.

        Raises:
            InferenceFailure: None of them does, or the request is one that fails everywhere.
        """
        tried = _Tried(self.pool)
        for seat in self._admitted(tried):
            try:
                with self.breakers.of(seat.model.id).watching():
                    return await seat.complete(request)
            except InferenceFailure as failure:
                tried.add(seat, failure)
        raise tried.failure()

    async def stream(self, request: ChatRequest) -> AsyncIterator[Piece]:
        """The answer of the first member that gives a whole one, in pieces.

        Where a member breaks off after pieces of its answer were given, `Restarted` comes before those of the next.

        Raises:
            InferenceFailure: None of them does, or the request is one that fails everywhere.
        """
        tried = _Tried(self.pool)
        attempt = 1
        has_pieces = False
        for seat in self._admitted(tried):
            pieces = seat.stream(request)
            try:
                # The breaker may have given this request its probe, so all of it is
                # watched.
                with self.breakers.of(seat.model.id).watching():
                    if has_pieces:
                        attempt += 1
                        yield Restarted(
                            attempt, f"{tried.latest}; {seat.model.id} takes over"
                        )
                    async for piece in pieces:
                        # After a restart, the reader has no pieces of this answer any
                        # more.
                        has_pieces = not isinstance(piece, Restarted)
                        # Members count their own attempts; the reader sees one answer.
                        attempt += 0 if has_pieces else 1
                        yield (
                            piece
                            if has_pieces
                            else structs.replace(piece, attempt=attempt)
                        )
            except InferenceFailure as failure:
                tried.add(seat, failure)
            else:
                return
            finally:
                await close_stream(pieces)
        raise tried.failure()

    def _admitted(self, tried: "_Tried") -> Iterator[Seat]:
        """The seats in turn, without those that failed too often of late."""
        for seat in self.seats:
            if self.breakers.of(seat.model.id).admits():
                yield seat
            else:
                tried.add_open(seat)


class _Tried:
    """What the members of a pool said to one request."""

    def __init__(self, pool: ModelPool) -> None:
        self._pool = pool
        self._said: list[str] = []
        self._failures: list[InferenceFailure] = []

    @property
    def latest(self) -> str:
        """The answer of the last one."""
        return self._said[-1]

    def add(self, seat: Seat, failure: InferenceFailure) -> None:
        """Note why a member did not answer.

        Raises:
            InferenceFailure: The pool does not switch on that.
        """
        switch = self._pool.switch
        # A rate limit may pass as well, but whether to leave for it is a decision of
        # its own.
        is_quota = failure.kind == "rate_limited"
        is_wanted = (
            switch.on_quota if is_quota else failure.may_pass or switch.on_permanent
        )
        if not (failure.is_of_model and is_wanted):
            raise failure
        self._said.append(f"{seat.model.id}: {failure.kind}: {failure}")
        self._failures.append(failure)

    def add_open(self, seat: Seat) -> None:
        """Note that a member failed too often of late.

        Raises:
            InferenceFailure: The pool does not switch on that.
        """
        self._said.append(f"{seat.model.id}: it failed too often of late")
        if not self._pool.switch.on_circuit_open:
            raise self.failure()

    def failure(self) -> InferenceFailure:
        """Why there is no answer: all are left alone for now, or all were tried."""
        told = "; ".join(self._said)
        if not self._failures:
            return InferenceFailure(
                "all_unavailable",
                f"no member of pool {self._pool.id} may be asked now: {told}",
            )
        # The pool is worth another try as soon as one of them is.
        waits = [
            failure.retry_after_ms
            for failure in self._failures
            if failure.retry_after_ms is not None
        ]
        message = f"no member of pool {self._pool.id} answered: {told}"
        return InferenceFailure("pool_exhausted", message, min(waits, default=None))
