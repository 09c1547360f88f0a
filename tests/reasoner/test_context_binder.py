"""A context says who asks as far as a token proves it, and prd takes a proof."""

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from agent_resolver.reasoner import RefusedEnvironment, bind_context, missing_claims
from agent_resolver.schema import ANONYMOUS, CONTEXT_CLAIMS, Caller, local_caller
from agent_resolver.schema.golden_context import Environment, GoldenContext, Incident
from tests.strategies import FEW

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ADA = Caller(
    id="ada",
    is_verified=True,
    issuer="https://one.example.com",
    division="retail",
    clearance="CONFIDENTIAL",
    cost_center="cc-1",
)
LOCAL = local_caller("ada")
ENVIRONMENTS: tuple[Environment, ...] = ("dev", "stg", "prd")


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_context_has_what_the_token_proves(environment: Environment) -> None:
    incident = Incident(incident_id="inc-7", incident_severity="P1")

    assert bind_context(ADA, environment, "helpdesk", TRACE, incident, "RESTRICTED") == GoldenContext(
        app_id="helpdesk",
        environment=environment,
        initiator_id="ada",
        trace_id=TRACE,
        division="retail",
        clearance_level="CONFIDENTIAL",
        cost_center="cc-1",
        data_classification="RESTRICTED",
        incident=incident,
        is_verified=True,
    )


@pytest.mark.parametrize("environment", ["dev", "stg"])
def test_without_an_issuer_the_context_says_that_nothing_is_proven(environment: Environment) -> None:
    context = bind_context(LOCAL, environment, "helpdesk", TRACE)

    assert (context.is_verified, context.initiator_id, context.cost_center) == (False, "local:ada", "")
    assert (context.data_classification, context.incident) == ("INTERNAL", Incident())


@pytest.mark.parametrize("caller", [LOCAL, ANONYMOUS, structs.replace(ADA, is_verified=False)])
def test_prd_is_refused_to_a_caller_for_whom_no_issuer_vouches(caller: Caller) -> None:
    with pytest.raises(RefusedEnvironment, match="no issuer vouches") as refused:
        bind_context(caller, "prd", "helpdesk", TRACE)

    assert refused.value.environment == "prd"
    assert "[identity]" in refused.value.hint


@pytest.mark.parametrize("environment", ["", "PRD", "prod", "prd ", "dev\n", "local"])
def test_no_other_environment_is_known_whoever_asks(environment: str) -> None:
    with pytest.raises(RefusedEnvironment) as refused:
        bind_context(ADA, environment, "helpdesk", TRACE)  # type: ignore[arg-type] # as from a command line

    assert refused.value.hint == "choose one of: dev, stg, prd"


@FEW
@given(
    caller=st.builds(
        Caller,
        id=st.text(min_size=1, max_size=20),
        is_verified=st.sampled_from([True]),
        division=st.text(max_size=20),
        cost_center=st.text(max_size=20),
    ),
    app_id=st.text(min_size=1, max_size=20),
)
def test_every_context_follows_its_schema_and_is_bound_alike_twice(caller: Caller, app_id: str) -> None:
    context = bind_context(caller, "prd", app_id, TRACE)

    assert bind_context(caller, "prd", app_id, TRACE) == context
    assert msgspec.convert(msgspec.to_builtins(context), GoldenContext) == context


def test_names_that_are_too_long_are_cut() -> None:
    context = bind_context(structs.replace(ADA, id="a" * 300, division="d" * 300), "dev", "x" * 300, TRACE)

    assert {len(context.app_id), len(context.initiator_id), len(context.division)} == {255}


@pytest.mark.parametrize("claim", CONTEXT_CLAIMS)
def test_a_claim_that_the_token_lacks_is_missing(claim: str) -> None:
    assert missing_claims(ADA) == ()
    assert missing_claims(structs.replace(ADA, absent_claims=(claim,))) == (claim,)


def test_missing_claims_come_in_a_fixed_order() -> None:
    assert missing_claims(structs.replace(ADA, absent_claims=tuple(reversed(CONTEXT_CLAIMS)))) == CONTEXT_CLAIMS


def test_a_caller_that_was_kept_before_claims_were_noted_lacks_the_empty_ones() -> None:
    assert missing_claims(Caller(id="ada", is_verified=True, cost_center="cc-1")) == ("division",)


def test_a_cost_center_that_no_token_states_does_not_count() -> None:
    booked = structs.replace(ADA, absent_claims=("cost_center",))

    assert missing_claims(booked) == ("cost_center",)


@pytest.mark.parametrize("caller", [LOCAL, ANONYMOUS])
def test_of_a_caller_without_a_token_no_claim_is_asked(caller: Caller) -> None:
    assert missing_claims(caller) == ()
