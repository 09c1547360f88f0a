"""The secrets that a server is given, and how they are kept out of what it says of itself."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent_resolver.connection.transport import Credentials
from agent_resolver.registry.errors import ToolFailure
from agent_resolver.registry.secret import Secret, redacted
from agent_resolver.schema.lockfile import LockedServer

_SECRET_NAME: Final = re.compile(
    "auth|credential|jwt|key|pass|pat$|pwd|secret|token", re.IGNORECASE
)
"""The name of a variable that is a secret, and not a region or a level, whose values are words of many texts."""


def given_secrets(
    entry: LockedServer, credentials: Credentials, environment: Mapping[str, str]
) -> tuple[Secret, ...]:
    """The secrets that a server is given, in its environment or to authenticate with."""
    variables = entry.launch.env if entry.launch else ()
    names = (*variables, credentials.token_env, credentials.client_secret_env)
    return tuple(
        Secret(name, environment[name])
        for name in names
        if name is not None and name in environment
    )


def redacted_failure(failure: ToolFailure, secrets: Sequence[Secret]) -> ToolFailure:
    """The failure without the secrets: an error of a server may quote the token that it refuses."""
    message, remedy, hint, *details = redacted(
        [str(failure), failure.remedy, failure.hint, *failure.details], secrets
    )
    return ToolFailure(failure.code, message, remedy, details=details, hint=hint)


def without_secrets(
    definition: dict[str, Any], secrets: Sequence[Secret]
) -> dict[str, Any]:
    """The definition of a tool without the secrets of its server: its text is shown, and kept in a file to share."""
    serious = [secret for secret in secrets if _SECRET_NAME.search(secret.name)]
    found = redacted(definition, serious)
    # One that is nested too deeply to be looked through comes back as one word.
    if isinstance(found, dict):
        return found
    return {"name": definition["name"], "description": found}
