"""Binds the context of a task: who asks, as far as a token proves it, and where the plan acts."""

from typing import Final, get_args

from agent_resolver.core.context_claim import proves_claim
from agent_resolver.reasoner.errors import RefusedEnvironment
from agent_resolver.schema.caller import CONTEXT_CLAIMS, Caller
from agent_resolver.schema.classification import Classification
from agent_resolver.schema.golden_context import Environment, GoldenContext, Incident

_MAX_NAME: Final = 255
_NO_INCIDENT: Final = Incident()


def bind_context(  # noqa: PLR0913, PLR0917 - the facts of a context
    caller: Caller,
    environment: Environment,
    app_id: str,
    trace_id: str,
    incident: Incident = _NO_INCIDENT,
    data_classification: Classification = "INTERNAL",
) -> GoldenContext:
    """The context of a task. The same facts give the same context.

    Args:
        caller: Who asks, as their token says or, without an issuer, as the machine does.
        environment: Where the plan acts.
        app_id: The project; what is longer than 255 characters is cut.
        trace_id: The trace of the task, 32 hexadecimal digits.
        incident: The incident that the task belongs to, if it belongs to one.
        data_classification: The most sensitive data that the task touches.

    Raises:
        RefusedEnvironment: There is no such environment, or it is `prd` and no issuer vouches for the caller.
    """
    _require_environment(caller, environment)
    return GoldenContext(
        # Names come from settings and tokens, and are cut to the length that the schema
        # of a context allows.
        app_id=app_id[:_MAX_NAME],
        environment=environment,
        initiator_id=caller.id[:_MAX_NAME],
        trace_id=trace_id,
        division=caller.division[:_MAX_NAME],
        clearance_level=caller.clearance,
        cost_center=caller.cost_center[:_MAX_NAME],
        data_classification=data_classification,
        incident=incident,
        is_verified=caller.is_verified,
    )


def missing_claims(caller: Caller) -> tuple[str, ...]:
    """The claims that a task needs and the caller's token does not have, in the order of `CONTEXT_CLAIMS`.

    Each is asked for, and only a new token answers. The local user of a project without an issuer has no token, so
    nothing is asked: the context says instead that nothing is proven.
    """
    if not caller.is_verified:
        return ()
    return tuple(claim for claim in CONTEXT_CLAIMS if not proves_claim(caller, claim))


def _require_environment(caller: Caller, environment: str) -> None:
    known = get_args(Environment)
    if environment not in known:
        raise RefusedEnvironment(
            environment,
            "there is no such environment",
            f"choose one of: {', '.join(known)}",
        )
    # Without an issuer, callers have the names that their machine gives them; in `prd`
    # a name has to be proven.
    if environment == "prd" and not caller.is_verified:
        problem = f"no issuer vouches for {caller.id}"
        hint = "name an issuer in `[identity]` of agent.toml and give a token of it, or choose `dev` or `stg`"
        raise RefusedEnvironment(environment, problem, hint)
