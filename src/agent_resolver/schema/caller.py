"""The caller: a person or program that asks for something."""

from typing import Final

from msgspec import Struct

from agent_resolver.schema.classification import Classification

CONTEXT_CLAIMS: Final = ("division", "clearance_level", "cost_center")
"""The claims that a task takes from the token of the person who asks, in the order in which they are asked for."""


class Caller(Struct, frozen=True, kw_only=True):
    """Who calls a tool or answers an action, and what they may do."""

    id: str
    is_verified: bool = False
    """Whether an issuer vouches for all this."""
    issuer: str = ""
    """The issuer that vouches; empty where none does."""
    scopes: frozenset[str] | None = frozenset()
    """What they may ask for; None is everything, for whoever runs their own code on their own machine."""
    roles: frozenset[str] = frozenset()
    clearance: Classification = "PUBLIC"
    """The most sensitive data that they may touch."""
    cost_center: str = ""
    app_id: str = ""
    """The program they use."""
    expires_at: str | None = None
    """When the issuer stops vouching, as ISO 8601 in UTC with milliseconds."""
    via: str = ""
    """The id of the worker that acts for the caller, whose own token has expired; empty while the caller acts."""
    via_issuer: str = ""
    """The issuer that vouches for the worker."""
    division: str = ""
    """The part of the organization that they belong to."""
    absent_claims: tuple[str, ...] = ()
    """Those of `CONTEXT_CLAIMS` that the token lacks or states in a way that cannot be used. It is empty for a caller
    without a token, and for one that was kept before claims were noted."""

    def as_recorded(self) -> dict[str, str]:
        """The fields by which an audit record names the caller, and the worker that acts for them."""
        known = {"issuer": self.issuer, "via": self.via, "viaIssuer": self.via_issuer}
        return {
            "caller": self.id,
            **{name: value for name, value in known.items() if value},
        }


ANONYMOUS: Final = Caller(id="anonymous")
"""A caller without a token where an issuer vouches for callers: they hold no scope."""


def local_caller(user: str) -> Caller:
    """The user of this machine, for whom the machine alone vouches: their own code runs with their own rights."""
    return Caller(id=f"local:{user}", scopes=None, clearance="RESTRICTED")
