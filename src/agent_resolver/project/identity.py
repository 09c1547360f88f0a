"""Identifies the caller in a project: the one that a token vouches for, or the user at this machine."""

import getpass
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from agent_resolver.core.authorization import is_expired
from agent_resolver.identity.errors import (
    InvalidToken,
    MissingToken,
    TokenCode,
    UnusableIdentity,
    WorkerUnavailable,
)
from agent_resolver.project.session import Session
from agent_resolver.schema.caller import ANONYMOUS, Caller, local_caller
from agent_resolver.storage.clock import SystemClock
from agent_resolver.storage.file import read_bounded

if TYPE_CHECKING:
    from agent_resolver.identity.verifier import Verifier
    from agent_resolver.registry.worker_identity import WorkerIdentity

VARIABLE: Final = "AGENT_TOKEN"
_MAX_FILE_BYTES: Final = 64 * 1024
"""More than a token may have, so that a token that is too long can be distinguished from a wrong file."""
_WHAT: Final = {
    "issuer": "the address of the server that issues the tokens",
    "audience": "what the tokens for this project have in their claim `aud`",
    "client_id": "the name by which the issuer knows the worker",
    "client_secret_env": "the environment variable that holds the secret of the worker",
}


async def caller_of(
    project: Session, token_file: str | None, environment: Mapping[str, str]
) -> Caller:
    """The caller of a command: that of the given token, or the local user where no issuer vouches for callers.

    Raises:
        MissingToken: There is an issuer, and no token.
        UnusableIdentity: The settings do not say whom to believe, or a token was given that cannot be verified.
        InvalidToken: The token is refused.
        KeysUnavailable: The keys of the issuer cannot be fetched.
        FileError: The file of the token cannot be read.
    """
    caller = await caller_or_anonymous(project, token_file, environment)
    if caller is ANONYMOUS:
        message = f"{project.config.identity.issuer} vouches for callers here, and no token was given"
        raise MissingToken(
            message,
            f"set {VARIABLE}, or name a file that holds the token with `--token-file`",
        )
    return caller


async def caller_or_worker(
    project: Session, token_file: str | None, environment: Mapping[str, str]
) -> Caller:
    """The identity that lets runs go on: the caller of a token, else the project's worker, else the local user.

    Raises:
        MissingToken: There is an issuer, no token, and no worker.
        ResolverError: As for `caller_of`, or the worker gets no token.
    """
    caller = await caller_or_anonymous(project, token_file, environment)
    # Anonymous means here that there is an issuer, and that no token was given.
    if caller is ANONYMOUS and (worker := worker_of(project)) is not None:
        return await worker.caller()
    # Without an issuer this is the local user; with one and no worker, it refuses.
    return await caller_of(project, token_file, environment)


class ProcessIdentity:
    """The identity under which a worker process acts, as `caller_or_worker` finds it."""

    def __init__(self, project: Session, token_file: str | None) -> None:
        self._project = project
        self._token_file = token_file
        self._worker: WorkerIdentity | None = None
        self._caller: Caller | None = None

    async def caller(self) -> Caller:
        """The caller that the process is. One whose token expired is asked for again: its file may have a new one.

        Raises:
            ResolverError: As for `caller_or_worker`.
        """
        if self._worker is not None:
            return await self._worker.caller()
        if self._caller is None or is_expired(self._caller, SystemClock().now()):
            environment = self._project.environment
            caller = await caller_or_anonymous(
                self._project, self._token_file, environment
            )
            if caller is ANONYMOUS and (worker := worker_of(self._project)) is not None:
                self._worker = worker
                return await worker.caller()
            # Without an issuer this is the local user; with one and no worker, it
            # refuses.
            self._caller = await caller_of(self._project, self._token_file, environment)
        return self._caller


async def caller_or_anonymous(
    project: Session, token_file: str | None, environment: Mapping[str, str]
) -> Caller:
    """As `caller_of`, for servers whose requests bring a token each: without one, the caller is anonymous."""
    verifier = verifier_of(project)
    token = _given_token(token_file, environment)
    if verifier is not None:
        return await verifier.caller(token) if token is not None else ANONYMOUS
    # A token must not be ignored, since its owner expects to act under the name in it.
    if token is not None:
        source = "`--token-file`" if token_file is not None else VARIABLE
        message = (
            f"{source} gives a token, and no issuer is set that could vouch for it"
        )
        raise UnusableIdentity(
            message,
            "set `identity.issuer` and `identity.audience` in agent.toml, or give no token",
        )
    return local_caller(user_name())


def verifier_of(project: Session) -> "Verifier | None":
    """The verifier of tokens, or None where no issuer vouches for callers.

    Raises:
        UntrustedFolder: `agent.toml` says whom to believe, and no person trusts its folder.
        UnusableIdentity: The settings name an issuer without an audience, an audience alone, or an unsafe address.
    """
    if any(map(project.is_set_by_file, ("identity.issuer", "identity.audience"))):
        project.require_trust("its settings say who vouches for callers")
    identity = project.config.identity
    issuer = identity.issuer
    audience = identity.audience
    if not issuer and not audience:
        return None
    if not issuer or not audience:
        # A half of it would verify tokens that were meant for others, or none at all.
        raise _half_set("issuer", "audience", is_first_set=bool(issuer))
    # Loaded only here: without an issuer, no command verifies a token.
    from agent_resolver.identity.keys import IssuerKeys
    from agent_resolver.identity.verifier import Verifier

    return Verifier(issuer, audience, IssuerKeys(issuer))


def _half_set(first: str, second: str, *, is_first_set: bool) -> UnusableIdentity:
    """The refusal of two settings that are needed together, of which one is set."""
    there, missing = (first, second) if is_first_set else (second, first)
    message = f"`identity.{there}` is set, and `identity.{missing}` is not"
    return UnusableIdentity(message, f"set `identity.{missing}` too: {_WHAT[missing]}")


def worker_of(project: Session) -> "WorkerIdentity | None":
    """The worker that acts in runs whose caller's token has expired; None if the settings name no such client.

    A secret that is not there is reported when the worker has to act: a run that ends before needs none.

    Raises:
        UntrustedFolder: `agent.toml` says which secret is sent to the issuer, and no person trusts its folder.
        UnusableIdentity: The settings name a client without its secret or its issuer.
    """
    if any(
        map(
            project.is_set_by_file, ("identity.client_id", "identity.client_secret_env")
        )
    ):
        project.require_trust("its settings say which secret is sent to the issuer")
    identity = project.config.identity
    client_id = identity.client_id
    variable = identity.client_secret_env
    if not client_id and not variable:
        return None
    if not client_id or not variable:
        raise _half_set("client_id", "client_secret_env", is_first_set=bool(client_id))
    verifier = verifier_of(project)
    if verifier is None:
        message = "`identity.client_id` is set, and no issuer is set that could know it"
        raise UnusableIdentity(
            message, "set `identity.issuer` and `identity.audience` in agent.toml"
        )
    secret = project.environment.get(variable, "")
    # RFC 6749, appendix A.2: a line break at its end, as from a file, is not part of a
    # secret.
    if not secret or not secret.isprintable():
        return _WorkerWithoutSecret(client_id, variable)
    from agent_resolver.identity.client_credentials import ClientCredentials

    return ClientCredentials(verifier, client_id, secret, scopes=identity.scopes)


class _WorkerWithoutSecret:
    """A worker whose secret is not in the environment, or cannot be one: it cannot act, and says why."""

    def __init__(self, client_id: str, variable: str) -> None:
        self._client_id = client_id
        self._variable = variable

    async def caller(self) -> Caller:
        message = (
            f"The worker {self._client_id} has no token: the environment variable "
            f"{self._variable} holds no secret"
        )
        raise WorkerUnavailable(
            message,
            f"set {self._variable} to the secret of the client, without a line break",
        )


def user_name() -> str:
    """The name of the user at this machine, as the machine has it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A container may run under a number that has no name.
        return str(os.getuid())


def _given_token(token_file: str | None, environment: Mapping[str, str]) -> str | None:
    """The token that was given; the file comes first, as what a command says before what surrounds it."""
    if token_file is None:
        return environment.get(VARIABLE, "").strip() or None
    try:
        text = read_bounded(token_file, _MAX_FILE_BYTES).decode("ascii").strip()
    except UnicodeDecodeError:
        text = ""
    if not text:
        message = f"`{token_file}` holds no token"
        raise InvalidToken(
            TokenCode.MALFORMED,
            message,
            "write the token into it as the issuer gave it",
        )
    return text
