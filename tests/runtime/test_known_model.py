"""The table of models that need no entry: what it holds, and how far it is trusted."""

from pathlib import Path

import pytest
from msgspec import structs

import agent_resolver.runtime
from agent_resolver.runtime import (
    AgentRuntimeBuilder,
    AgentSpec,
    ContextPolicy,
    ModelFacts,
    ModelNotFound,
    ModelPool,
    ModelSpec,
    PoolMember,
    ProviderNotFound,
    ResolvedAgent,
    known_models,
    resolve_local,
)
from tests.runtime.sample import Echo


def planned(model: str, made: AgentRuntimeBuilder | None = None) -> ResolvedAgent:
    builder = made or AgentRuntimeBuilder().with_known_models().with_provider("openai", Echo())
    spec = AgentSpec(id="agent", model_id=model, context_policy=ContextPolicy())
    return resolve_local(builder.with_agent_spec(spec).build_unchecked().snapshot, "agent")


def test_every_known_model_is_a_model_of_a_known_provider() -> None:
    table = known_models()

    for name, model in table.models.items():
        spec = structs.replace(model.spec(name), **structs.asdict(model.facts))
        assert list(spec.faults()) == [], name
        assert model.provider in table.providers
        assert spec.data.residency is None
        assert spec.data.max_sensitivity is None
    assert set(table.families.values()) <= table.models.keys()
    assert list(table.models) == sorted(table.models)
    assert all(provider.api_key_env.isupper() for provider in table.providers.values())


def test_no_key_is_in_the_table() -> None:
    folder = Path(agent_resolver.runtime.__file__).parent
    text = (folder / "known_models.toml").read_text(encoding="utf-8")

    assert "api_key =" not in text
    assert "sk-" not in text


def test_a_known_model_is_planned_with_and_never_trusted() -> None:
    found = planned("gpt-4o")

    assert (found.model.provider_id, found.model.context_window) == ("openai", 128_000)
    assert found.context_policy is not None
    assert found.context_policy.max_context_tokens == 128_000
    assert found.model.cost(1_000_000, 1_000_000) == 12.5
    assert found.modality_guard is None
    plugins = [active.id for active in found.env.plugins]
    assert plugins == ["loop_action_handlers", "max_rounds", "context_compaction", "context_transform"]


def test_no_model_is_known_unless_a_program_asks_for_the_table() -> None:
    with pytest.raises(ModelNotFound):
        planned("gpt-4o", AgentRuntimeBuilder().with_provider("openai", Echo()))


def test_a_known_model_needs_its_provider() -> None:
    with pytest.raises(ProviderNotFound, match="provider not found: anthropic"):
        planned("claude-opus-5")


def test_a_pool_may_have_known_members_and_takes_a_known_name() -> None:
    pool = ModelPool(id="gpt-4o", members=(PoolMember(model_id="gpt-5"), PoolMember(model_id="gpt-5-mini")))
    made = AgentRuntimeBuilder().with_known_models().with_provider("openai", Echo()).with_model_pool(pool)

    assert sorted(seat.model.id for seat in planned("gpt-4o", made).seats) == ["gpt-5", "gpt-5-mini"]


def test_what_a_program_estimates_comes_before_the_table() -> None:
    made = AgentRuntimeBuilder().with_model_estimates({"gpt-4o": ModelFacts(context_window=5)})
    found = planned("gpt-4o", made.with_known_models().with_provider("openai", Echo()))

    assert found.model.context_window == 5


def test_a_name_that_two_models_could_be_is_not_guessed() -> None:
    made = AgentRuntimeBuilder().with_provider("p", Echo())
    for name in ("small-1", "small.1"):
        made.with_model(ModelSpec(id=name, provider_id="p", upstream_model=name))

    with pytest.raises(ModelNotFound):
        planned("Small 1", made)
