"""Stage 1: the spec, its model, and who answers for it."""

from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from agent_resolver.core.constraint import RunLimits
from agent_resolver.core.rule import broken_data_rules
from agent_resolver.runtime.default_plugin import (
    COMPACTION,
    COMPACTION_SECTION,
    CompactionConfig,
)
from agent_resolver.runtime.errors import (
    AgentNotFound,
    ConstraintBroken,
    InvalidPluginConfig,
    InvalidSpec,
    LockMissing,
    LockStale,
    ProviderNotFound,
)
from agent_resolver.runtime.executor import LlmExecutor
from agent_resolver.runtime.model import (
    DataFacts,
    Modalities,
    ModelPool,
    ModelSpec,
    pooled,
)
from agent_resolver.runtime.model_lookup import find_models
from agent_resolver.runtime.plan import PlanWarning
from agent_resolver.runtime.registry_set import (
    HeldLock,
    MissingLock,
    ModelFacts,
    Provider,
    RegistrySet,
    StaleLock,
)
from agent_resolver.runtime.retry import RetryConfig, RetryingExecutor
from agent_resolver.runtime.seat import PooledExecutor, Seat
from agent_resolver.runtime.spec import AgentSpec, ContextPolicy
from agent_resolver.runtime.spec_reader import refused
from agent_resolver.schema.artifact_path import lock_path_of
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.foreign_error import describe_exception
from agent_resolver.schema.issue import Issue, IssueCode
from agent_resolver.schema.source import Unreadable
from agent_resolver.schema.toml_tree import tree_of
from agent_resolver.schema.walker import suggestion, walk

RETRY: Final = "retry"
_FACTS: Final = ("context_window", "max_output_tokens", "knowledge_cutoff")


class Lookup(Struct, frozen=True, kw_only=True):
    """What stage 1 found."""

    spec: AgentSpec
    model: ModelSpec
    pool: ModelPool | None
    seats: tuple[Seat, ...]
    executor: LlmExecutor
    modality_guard: Modalities | None
    trusted_cutoff: str | None
    context_policy: ContextPolicy | None
    lock: HeldLock | None
    limits: RunLimits
    warnings: tuple[PlanWarning, ...]


class Sight(Struct, frozen=True):
    """Something that would see the data of an agent, and what is known of it."""

    what: str
    """Its name, for an error."""
    kind: str
    data: DataFacts


def find_spec(registries: RegistrySet, agent_id: str) -> AgentSpec:
    """The spec of an agent.

    Raises:
        AgentNotFound: There is none.
        InvalidSpec: The registry that was asked for it gave something else.
    """
    try:
        spec: object = registries.agents.get(agent_id)
        known = registries.agents.ids() if spec is None else ()
    except ResolverError:
        raise
    except (Exception, SystemExit) as error:
        raise _no_spec(agent_id, describe_exception(error)) from error
    if spec is None:
        raise AgentNotFound(agent_id, suggestion(agent_id, known))
    if not isinstance(spec, AgentSpec):
        raise _no_spec(agent_id, f"it is a `{type(spec).__name__}`")
    return spec


def _no_spec(agent_id: str, why: str) -> InvalidSpec:
    return InvalidSpec(
        [
            Issue(
                at=(),
                code=IssueCode.INVALID_TYPE,
                message=f"agent {agent_id} has no spec: {why}",
            )
        ]
    )


def look_up(registries: RegistrySet, spec: AgentSpec, limits: RunLimits) -> Lookup:
    """The model of a spec and who answers for it.

    1. The section `retry` must be one.
    2. The lock must hold, where the agent file has `requires`, and its servers must be allowed to see the data.
    3. The model, by id, alias or pool, and the provider of each; what a spec leaves open its provider may know.
    4. Every model must be allowed to see the data.
    5. The executor of each model, wrapped to try again where the section says so; of a pool, all of them in turn.
    """
    retry = section(spec, RETRY, RETRY, RetryConfig)
    lock = held_lock(registries, spec)
    check_servers(spec, limits, spec.id)
    named = find_models(registries, spec)
    pool, members = (
        named.pool,
        [(model, _find_provider(registries, model)) for model in named.models],
    )
    for member, _ in members:
        check_data(spec.id, limits, Sight(f"model {member.id}", "model", member.data))
    # Two readings of each model: what is certain may refuse a request, and an estimate
    # is only planned with.
    trusted = [
        _fill_in_facts(member, provider.facts.get(member.upstream_model))
        for member, provider in members
    ]
    known = [with_known_facts(registries, member) for member, _ in members]
    executors = [_with_retries(provider.executor, retry) for _, provider in members]
    seats = tuple(
        Seat(model, executor) for model, executor in zip(known, executors, strict=True)
    )
    executor = (
        seats[0] if pool is None else PooledExecutor(pool, seats, registries.breakers)
    )
    model, sure = (
        (known[0], trusted[0])
        if pool is None
        else (pooled(pool, known), pooled(pool, trusted))
    )
    return Lookup(
        spec=spec,
        model=model,
        pool=pool,
        seats=seats,
        executor=executor,
        # Empty modalities say that nothing is known, and so there is nothing to guard.
        modality_guard=sure.modalities if sure.modalities != Modalities() else None,
        trusted_cutoff=sure.knowledge_cutoff,
        context_policy=clamped(spec.context_policy, model),
        lock=lock,
        limits=limits,
        warnings=named.warnings,
    )


def _with_retries(executor: LlmExecutor, retry: RetryConfig | None) -> LlmExecutor:
    """The executor, wrapped to try again where the section `retry` asks for it."""
    if retry is None or retry.max_retries == 0:
        return executor
    return RetryingExecutor(executor, retry)


def section(spec: AgentSpec, plugin: str, key: str, kind: type[Struct]) -> Any:  # noqa: ANN401 - a value of `kind`
    """A section of a spec, None where it is absent.

    Raises:
        InvalidPluginConfig: It is not what it should be; with every fault.
    """
    if key not in spec.sections:
        return None
    value = spec.sections[key]
    try:
        faults = refused(walk(tree_of(value), kind))
    except Unreadable as stop:
        faults = [stop.issue]
    if faults:
        raise InvalidPluginConfig(plugin, key, "; ".join(map(_render_fault, faults)))
    return msgspec.convert(value, kind)


def _render_fault(fault: Issue) -> str:
    # A fault of the whole section has no path, and its message says enough.
    if not fault.at:
        return fault.message
    return f"{fault}, {fault.hint}" if fault.hint else str(fault)


def held_lock(registries: RegistrySet, spec: AgentSpec) -> HeldLock | None:
    """The lock of an agent that needs one.

    Raises:
        LockMissing: There is none.
        LockStale: It does not hold.
    """
    if not spec.requires_lock:
        return None
    lock = registries.locks.get(spec.id) or MissingLock(
        path=lock_path_of(f"{spec.id}.md")
    )
    if isinstance(lock, MissingLock):
        raise LockMissing(spec.id, lock.path, lock.hint)
    if isinstance(lock, StaleLock):
        raise LockStale(spec.id, lock.path, lock.differences, lock.hint)
    # A mapping of locks may be code of others, and give anything.
    if not isinstance(lock, HeldLock):
        raise LockMissing(spec.id, f"a `{type(lock).__name__}` is there, and the lock")
    return lock


def models_of(registries: RegistrySet, spec: AgentSpec) -> list[ModelSpec]:
    """The model of a spec, or every member of its pool."""
    return list(find_models(registries, spec).models)


def summary_model_of(registries: RegistrySet, spec: AgentSpec) -> Sight | None:
    """The model that sums up what an agent has seen, where its spec names one.

    A name that is not one of ours is the provider's own business, and where its data goes is not known.

    Raises:
        InvalidPluginConfig: The section that names it is not what it should be.
    """
    config = section(spec, COMPACTION, COMPACTION_SECTION, CompactionConfig)
    if config is None or config.summary_model is None:
        return None
    model = registries.models.get(config.summary_model)
    return Sight(
        f"summary model {config.summary_model}",
        "model",
        model.data if model else DataFacts(),
    )


def check_data(agent_id: str, limits: RunLimits, sight: Sight) -> None:
    """Stop where something would see data of an agent that it may not.

    Raises:
        ConstraintBroken: With every reason, in the resolver's codes.
    """
    data = sight.data
    if reasons := broken_data_rules(
        sight.kind, data.residency, data.max_sensitivity, limits
    ):
        raise ConstraintBroken(agent_id, sight.what, reasons)


def check_servers(spec: AgentSpec, limits: RunLimits, agent_id: str) -> None:
    """Stop where the locked servers of a spec would see data of an agent that they may not.

    They were chosen under the constraints of the spec: they are good enough if those are as strict.

    Raises:
        ConstraintBroken: With every reason, in the resolver's codes.
    """
    if not spec.requires_lock:
        return
    own = RunLimits().narrowed_by(spec.limits)
    stated = DataFacts(
        residency=own.residencies or None, max_sensitivity=own.sensitivity
    )
    what = (
        "its locked servers"
        if spec.id == agent_id
        else f"the servers of delegate {spec.id}"
    )
    check_data(agent_id, limits, Sight(what, "delegate", stated))


def clamped(policy: ContextPolicy | None, model: ModelSpec) -> ContextPolicy | None:
    """The policy as far as the model allows it; it only ever gets narrower."""
    if policy is None:
        return None
    # Where the model has no number, it narrows nothing.
    context = min(
        policy.max_context_tokens, model.context_window or policy.max_context_tokens
    )
    output = min(
        policy.max_output_tokens,
        model.max_output_tokens or policy.max_output_tokens,
        context,
    )
    threshold = policy.autocompact_threshold
    if threshold is not None:
        # Nothing left for it means that there is no use for it.
        threshold = min(threshold, context - output) or None
    return structs.replace(
        policy,
        max_context_tokens=context,
        max_output_tokens=output,
        autocompact_threshold=threshold,
    )


def _find_provider(registries: RegistrySet, model: ModelSpec) -> Provider:
    provider = registries.providers.get(model.provider_id)
    if provider is None:
        raise ProviderNotFound(
            model.provider_id, suggestion(model.provider_id, registries.providers)
        )
    return provider


def with_known_facts(registries: RegistrySet, model: ModelSpec) -> ModelSpec:
    """The model with what its spec leaves open: what its provider knows of it, what is usual, and its prices."""
    trusted = _fill_in_facts(
        model, _find_provider(registries, model).facts.get(model.upstream_model)
    )
    # Estimates fill in only what neither the spec nor the provider says.
    known = _fill_in_facts(trusted, registries.estimates.get(model.upstream_model))
    return _fill_in_prices(known, registries.known_models.get(model.upstream_model))


def _fill_in_facts(model: ModelSpec, facts: ModelFacts | None) -> ModelSpec:
    """The model with what its spec leaves open and the facts do not."""
    if facts is None:
        return model
    open_facts = {
        name: getattr(facts, name) for name in _FACTS if getattr(model, name) is None
    }
    modalities = Modalities(
        input=model.modalities.input or facts.modalities.input,
        output=model.modalities.output or facts.modalities.output,
    )
    return structs.replace(model, modalities=modalities, **open_facts)


def _fill_in_prices(model: ModelSpec, known: ModelSpec | None) -> ModelSpec:
    """The model with the prices that its own provider publishes; another provider of the same model has its own."""
    # One price in the spec means that its author sets the prices: the other one is not
    # filled in.
    has_prices = model.input_price is not None or model.output_price is not None
    if known is None or known.provider_id != model.provider_id or has_prices:
        return model
    return structs.replace(
        model, input_price=known.input_price, output_price=known.output_price
    )
