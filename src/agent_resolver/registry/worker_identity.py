"""The port to the identity under which runs go on when the token of their starter has expired."""

from typing import Protocol

from agent_resolver.schema.caller import Caller


class WorkerIdentity(Protocol):
    """Knows who the worker is: the program that carries runs on."""

    async def caller(self) -> Caller:
        """The worker, as its own valid token says, which is renewed before it expires.

        Raises:
            ResolverError: There is no token; its hint says what to do.
        """
        ...
