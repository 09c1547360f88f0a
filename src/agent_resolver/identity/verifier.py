"""Tells from a token who is asking."""

import time
from collections.abc import Callable
from typing import Protocol

from agent_resolver.identity.errors import InvalidToken, TokenCode
from agent_resolver.identity.keys import Keys
from agent_resolver.identity.token import verify
from agent_resolver.schema.caller import Caller


class KeySource(Protocol):
    """Has the keys of an issuer."""

    async def current(self) -> Keys:
        """The keys."""
        ...

    async def newer(self) -> Keys:
        """The keys for a token that none of the current ones fits."""
        ...


class Verifier:
    """Verifies the tokens that one issuer gives out for one audience."""

    def __init__(
        self,
        issuer: str,
        audience: str,
        keys: KeySource,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.issuer = issuer
        self.audience = audience
        self._keys = keys
        self._clock = clock

    async def caller(self, token: str) -> Caller:
        """The caller that a token vouches for.

        Raises:
            InvalidToken: It vouches for no caller.
            KeysUnavailable: The keys of the issuer cannot be fetched, so the token cannot be judged.
        """
        try:
            return self._verified(token, await self._keys.current())
        except InvalidToken as refused:
            if refused.code is not TokenCode.UNKNOWN_KEY:
                raise
        # The issuer may have a new key since its keys were read: a token with an
        # unknown one is worth a second look.
        return self._verified(token, await self._keys.newer())

    def _verified(self, token: str, keys: Keys) -> Caller:
        return verify(
            token, keys, issuer=self.issuer, audience=self.audience, now=self._clock()
        )
