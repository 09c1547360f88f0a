"""Decides who makes the calls of a run: its starter, or a worker that acts for them."""

from msgspec import structs

from agent_resolver.core.authorization import acting_for, is_expired
from agent_resolver.engine.errors import CannotAct
from agent_resolver.registry.port import Clock
from agent_resolver.registry.worker_identity import WorkerIdentity
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.errors import ResolverError


class Acting:
    """The identity of the process that drives runs."""

    def __init__(
        self,
        identity: WorkerIdentity | None,
        clock: Clock,
        stand_in: WorkerIdentity | None = None,
    ) -> None:
        """An identity.

        Args:
            identity: The worker's own. None for a process that has none: starters act in person, as long as their
                token is valid.
            clock: The time by which tokens expire.
            stand_in: The worker that goes on for those who acted in person, once their token has expired.
        """
        self._identity = identity
        self._clock = clock
        self._stand_in = stand_in

    async def caller_for(self, starter: Caller) -> Caller:
        """The caller of the next call: the starter, with no more rights than the worker has.

        Raises:
            CannotAct: The worker has no valid token, or there is none and the starter's has expired.
        """
        identity = self._identity_for(starter)
        if identity is None:
            if is_expired(starter, self._clock.now()):
                message = f"The token of {starter.id} expired at {starter.expires_at}, and this worker has no identity"
                raise CannotAct(message, "give the worker one: docs/identity.md")
            return starter
        try:
            worker = await identity.caller()
        except ResolverError as error:
            raise CannotAct(str(error), error.hint) from error
        acting = acting_for(starter, worker)
        # The identity gave this token a moment ago: if it has expired already, the
        # clocks differ.
        if is_expired(acting, self._clock.now()):
            raise CannotAct(f"The token of {worker.id} has expired", "set the clocks")
        return acting

    async def worker(self, starter: Caller | None = None) -> Caller | None:
        """The worker that acts, for this starter if one is given; None where there is none, or no token for it."""
        identity = self._identity_for(starter)
        if identity is None:
            return None
        try:
            return await identity.caller()
        except ResolverError:
            # Only names are wanted here; the next call raises what is wrong with the
            # identity.
            return None

    def _identity_for(self, starter: Caller | None) -> WorkerIdentity | None:
        # Where the process has no identity, starters act in person until their token
        # has expired.
        if (
            self._identity is None
            and starter is not None
            and is_expired(starter, self._clock.now())
        ):
            return self._stand_in
        return self._identity


def named_caller(starter: Caller, worker: Caller | None) -> Caller:
    """The caller that records and spans name: the starter, and the worker that acts for them."""
    return starter if worker is None else acting_for(starter, worker)


def names_of(starter: Caller, worker: Caller | None) -> dict[str, str]:
    """The fields by which an audit record names the starter, and the worker that acts for them."""
    return named_caller(starter, worker).as_recorded()


def booked_on(caller: Caller, cost_center: str) -> Caller:
    """The caller, with this cost centre unless they have one of their own."""
    return structs.replace(caller, cost_center=caller.cost_center or cost_center)
