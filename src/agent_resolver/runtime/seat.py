"""A model that may answer, and what answers for it; of a pool, one seat for each member."""

from collections.abc import AsyncGenerator

from msgspec import Struct, structs

from agent_resolver.runtime.executor import LlmExecutor
from agent_resolver.runtime.inference import ChatAnswer, ChatRequest, Piece
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

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Piece]:
        """The answer of this model in pieces."""
        async for piece in self.executor.stream(self._addressed(request)):
            is_whole = isinstance(piece, ChatAnswer)
            yield structs.replace(piece, model_id=self.model.id) if is_whole else piece

    def _addressed(self, request: ChatRequest) -> ChatRequest:
        """The request under the name that the provider has for this model."""
        if request.model == self.model.upstream_model:
            return request
        return structs.replace(request, model=self.model.upstream_model)


class PooledExecutor(Struct, frozen=True):
    """The members of a pool in the order in which an agent tries them."""

    pool: ModelPool
    seats: tuple[Seat, ...]

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The answer of the agent's home."""
        return await self.seats[0].complete(request)

    def stream(self, request: ChatRequest) -> AsyncGenerator[Piece]:
        """The answer of the agent's home in pieces."""
        return self.seats[0].stream(request)
