"""Stage 2: the plugins of an agent, their sections, and what they register."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, cast

from msgspec import Struct, structs

from agent_resolver.runtime import default_plugin
from agent_resolver.runtime.default_plugin import (
    BUILT_IN_SECTIONS,
    COMPACTION,
    COMPACTION_SECTION,
    DEFAULT_COMPACTION,
    PERMISSION,
    CompactionConfig,
    ContextTransformConfig,
    CutoffConfig,
    DefaultPlugin,
)
from agent_resolver.runtime.errors import (
    EnvBuild,
    InvalidPlugin,
    InvalidPluginConfig,
    PluginNotFound,
)
from agent_resolver.runtime.lookup import (
    RETRY,
    Lookup,
    check_data,
    section,
    summary_model_of,
    with_known_facts,
)
from agent_resolver.runtime.model import ModelSpec
from agent_resolver.runtime.permission import (
    Permissions,
    parse_permissions,
    permission_gate,
)
from agent_resolver.runtime.plan import PlanWarning, Summarizer, WarningCode
from agent_resolver.runtime.plugin import (
    ConfigSchema,
    ExecutionEnv,
    Plugin,
    Registrar,
    schemas_of,
)
from agent_resolver.runtime.registry_set import RegistrySet
from agent_resolver.runtime.seat import Seat
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.foreign_error import describe_exception
from agent_resolver.schema.walker import suggestion

_KEPT: Final = 128
"""The number of sets of the runtime's own plugins that are kept: every run makes its plan again."""


class Sections(Struct, frozen=True):
    """The sections that plugins of ours read."""

    compaction: CompactionConfig
    summary_model: ModelSpec | None
    """The model that sums up, where the section names one."""
    transform: ContextTransformConfig
    cutoff: CutoffConfig
    permissions: Permissions | None


class BuiltEnv(Struct, frozen=True):
    """What stage 2 made."""

    env: ExecutionEnv
    permissions: Permissions | None
    """The parsed section `permission`; None where the spec has none."""
    summarizer: Summarizer | None
    warnings: tuple[PlanWarning, ...]


def build_env(registries: RegistrySet, found: Lookup) -> BuiltEnv:
    """The parts that the plugins of an agent register, and the sections that none of them reads.

    1. The sections of our own plugins; a bad one is refused even where its plugin has nothing to do.
    2. The plugins that the spec names, in its order.
    3. Every section is held against the schema of the plugin that reads it.
    4. Each named plugin registers again, before those that every agent has; the filter counts for the named.
    """
    ours = _our_sections(registries, found)
    named = [
        (plugin_id, _find_plugin(registries, plugin_id))
        for plugin_id in found.spec.plugin_ids
    ]
    warnings = list(_check_sections(found, named))
    defaults = tuple(_default_plugins(found, ours))
    if not named:
        return BuiltEnv(
            _default_env(defaults),
            ours.permissions,
            _summarizer(found, ours),
            tuple(warnings),
        )
    registrar = Registrar(registries.kept_descriptors)
    chosen = set(found.spec.active_hook_filter)
    for plugin_id, plugin in named:
        # An empty filter lets every plugin count.
        registrar.take(plugin_id, plugin, counts=not chosen or plugin_id in chosen)
    return BuiltEnv(
        _env_with(registrar, defaults),
        ours.permissions,
        _summarizer(found, ours),
        tuple(warnings),
    )


@lru_cache(maxsize=_KEPT)
def _default_env(plugins: tuple[DefaultPlugin, ...]) -> ExecutionEnv:
    """The plugins of an agent that names none of its own.

    All its runs share it: the runtime's own plugins are data that never changes, and so is what they register.
    """
    return _env_with(Registrar(), plugins)


def _env_with(registrar: Registrar, plugins: tuple[DefaultPlugin, ...]) -> ExecutionEnv:
    for plugin in plugins:
        # The filter of a spec is for the plugins that it names: those of the runtime
        # always count.
        registrar.take(plugin.id, plugin, counts=True)
    return registrar.env()


def _find_plugin(registries: RegistrySet, plugin_id: str) -> Plugin:
    try:
        plugin: object = registries.plugins.get(plugin_id)
        is_plugin = isinstance(plugin, Plugin)
    except ResolverError:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidPlugin(plugin_id, [describe_exception(error)]) from error
    if plugin is None:
        raise PluginNotFound(plugin_id, suggestion(plugin_id, registries.plugins))
    if not is_plugin:
        raise InvalidPlugin(
            plugin_id, [f"it is a `{type(plugin).__name__}`, and not a plugin"]
        )
    return cast("Plugin", plugin)


def _our_sections(registries: RegistrySet, found: Lookup) -> Sections:
    read = {
        key: section(found.spec, name, key, kind)
        for key, (name, kind) in BUILT_IN_SECTIONS.items()
    }
    config: CompactionConfig = read[COMPACTION_SECTION] or DEFAULT_COMPACTION
    summary_model = _summary_model(registries, found, config)
    if summary_model is not None:
        # From here on, it is called what its provider calls it.
        config = structs.replace(config, summary_model=summary_model.upstream_model)
    return Sections(
        config,
        summary_model,
        read["context_transform"] or ContextTransformConfig(),
        read["knowledge_cutoff_context"] or CutoffConfig(),
        parse_permissions(read[PERMISSION]) if read[PERMISSION] else None,
    )


def _summary_model(
    registries: RegistrySet, found: Lookup, config: CompactionConfig
) -> ModelSpec | None:
    """The model that sums up, where the section names one.

    A model of ours must be with the same provider, and may see what the agent sees. Any other name is one that the
    provider of the agent's model has, and where its data goes is not known.
    """
    if config.raw_retention == "drop":
        message = "raw_retention drop is not possible: a run keeps its messages, so that it can go on and be replayed"
        raise InvalidPluginConfig(COMPACTION, COMPACTION_SECTION, message)
    name = config.summary_model
    if name is None:
        return None
    if sight := summary_model_of(registries, found.spec):
        check_data(found.spec.id, found.limits, sight)
    model = registries.models.get(name)
    if model is None:
        unknown = ModelSpec(
            id=name, provider_id=found.seats[0].model.provider_id, upstream_model=name
        )
        return with_known_facts(registries, unknown)
    others = sorted(
        {seat.model.provider_id for seat in found.seats} - {model.provider_id}
    )
    if others:
        message = f"summary_model {model.id} is with provider {model.provider_id}, not {others[0]}"
        raise InvalidPluginConfig(COMPACTION, COMPACTION_SECTION, message)
    return with_known_facts(registries, model)


def _summarizer(found: Lookup, sections: Sections) -> Summarizer | None:
    """Sums up conversations of the agent, if its policy says when; by its own model unless the section names one."""
    policy, config, model = (
        found.context_policy,
        sections.compaction,
        sections.summary_model,
    )
    if policy is None or policy.autocompact_threshold is None or config.mode == "off":
        return None
    if model is None:
        return Summarizer(config, found.model, found.executor)
    # The first seat reaches the provider, and the new seat puts the name of this model
    # into its requests.
    return Summarizer(config, model, Seat(model, found.seats[0].executor))


def _check_sections(
    found: Lookup, plugins: list[tuple[str, Plugin]]
) -> Iterator[PlanWarning]:
    # What the runtime reads by itself is claimed as well, or it would be reported as
    # misspelt.
    claimed = {RETRY, *BUILT_IN_SECTIONS}
    sections = found.spec.sections
    for plugin_id, plugin in plugins:
        for declared in schemas_of(plugin_id, plugin):
            claimed.add(declared.key)
            if declared.key in sections:
                _check_section(plugin_id, declared, sections[declared.key])
    for key in sorted(sections.keys() - claimed):
        message = (
            f'section "{key}" is read by no plugin of this agent: it may be misspelt'
        )
        yield PlanWarning(WarningCode.UNCLAIMED_SECTION, key, message)


def _check_section(plugin_id: str, declared: ConfigSchema, value: Any) -> None:  # noqa: ANN401 - a JSON value
    from agent_resolver.registry.compiled_schema import compile_schema, schema_faults

    try:
        shape = compile_schema(declared.schema)
    except (TypeError, ValueError) as error:
        raise EnvBuild(
            f'plugin {plugin_id}: the schema of section "{declared.key}" is not a schema: {error}'
        ) from error
    if faults := schema_faults(shape, value, "section"):
        raise InvalidPluginConfig(plugin_id, declared.key, "; ".join(faults))


def _default_plugins(found: Lookup, sections: Sections) -> Iterator[DefaultPlugin]:
    spec = found.spec
    policy = found.context_policy
    yield default_plugin.loop_action_handlers()
    if spec.stop_conditions:
        yield default_plugin.stop_conditions(spec.max_rounds, spec.stop_conditions)
    else:
        yield default_plugin.max_rounds(spec.max_rounds)
    if sections.permissions:
        yield permission_gate(sections.permissions)
    # Only a cut-off that is known for sure goes into the prompt.
    if found.trusted_cutoff and sections.cutoff.enabled:
        yield default_plugin.knowledge_cutoff(found.trusted_cutoff)
    if policy:
        yield default_plugin.compaction(sections.compaction, policy)
        yield default_plugin.context_transform(sections.transform, policy)
