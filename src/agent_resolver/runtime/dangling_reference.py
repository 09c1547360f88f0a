"""References that lead nowhere, all of them at once."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct

from agent_resolver.runtime.errors import InvalidSpec
from agent_resolver.runtime.model_lookup import has_model
from agent_resolver.runtime.registry_set import RegistrySet
from agent_resolver.runtime.spec import AgentSpec


class DanglingCode(StrEnum):
    """What is missing, stable for machines."""

    AGENT_MISSING_MODEL = "AGENT_MISSING_MODEL"
    MODEL_MISSING_PROVIDER = "MODEL_MISSING_PROVIDER"
    POOL_MISSING_MODEL = "POOL_MISSING_MODEL"
    AGENT_MISSING_PLUGIN = "AGENT_MISSING_PLUGIN"
    AGENT_MISSING_DELEGATE = "AGENT_MISSING_DELEGATE"
    HOOK_FILTER_NOT_LOADED = "HOOK_FILTER_NOT_LOADED"
    AGENT_INVALID = "AGENT_INVALID"


class Dangling(Struct, frozen=True):
    """A reference that leads nowhere."""

    code: DanglingCode
    subject: str
    """What refers."""
    missing: str
    """What it refers to; of an agent that is none, why."""

    def __str__(self) -> str:
        return f"{self.subject}: {_WORDS[self.code]} {self.missing}"


_WORDS: Final = {
    DanglingCode.AGENT_MISSING_MODEL: "there is no model",
    DanglingCode.MODEL_MISSING_PROVIDER: "there is no provider",
    DanglingCode.POOL_MISSING_MODEL: "there is no model",
    DanglingCode.AGENT_MISSING_PLUGIN: "there is no plugin",
    DanglingCode.AGENT_MISSING_DELEGATE: "there is no agent",
    DanglingCode.HOOK_FILTER_NOT_LOADED: "its hook filter names a plugin that it does not load:",
    DanglingCode.AGENT_INVALID: "it is invalid:",
}


def dangling(registries: RegistrySet) -> list[Dangling]:
    """Every reference of agents, models and pools that leads nowhere, by subject."""
    found = {*_of_models(registries)}
    for agent_id in registries.agents.ids():
        try:
            spec = registries.agents.get(agent_id)
        except InvalidSpec as error:
            # An invalid agent must not hide what is wrong with the others.
            found.add(
                Dangling(DanglingCode.AGENT_INVALID, f"agent {agent_id}", str(error))
            )
            continue
        if spec is not None:
            found |= set(_of_agent(registries, agent_id, spec))
    return sorted(found, key=lambda each: (each.subject, each.code, each.missing))


def _of_models(registries: RegistrySet) -> Iterator[Dangling]:
    # Models are registered under their aliases as well, so that each is taken once by
    # its id.
    for model in {model.id: model for model in registries.models.values()}.values():
        if model.provider_id not in registries.providers:
            yield Dangling(
                DanglingCode.MODEL_MISSING_PROVIDER,
                f"model {model.id}",
                model.provider_id,
            )
    for pool in registries.pools.values():
        for member in pool.members:
            if not has_model(registries, member.model_id):
                yield Dangling(
                    DanglingCode.POOL_MISSING_MODEL, f"pool {pool.id}", member.model_id
                )


def _of_agent(
    registries: RegistrySet, agent_id: str, spec: AgentSpec
) -> Iterator[Dangling]:
    subject = f"agent {agent_id}"
    names = (spec.model_id, *spec.model_alternatives)
    # One name that means a model is enough: the others are alternatives.
    if not spec.is_remote and not any(has_model(registries, name) for name in names):
        yield Dangling(DanglingCode.AGENT_MISSING_MODEL, subject, spec.model_id)
    for plugin_id in spec.plugin_ids:
        if plugin_id not in registries.plugins:
            yield Dangling(DanglingCode.AGENT_MISSING_PLUGIN, subject, plugin_id)
    for delegate in spec.delegates:
        if not _is_there(registries, delegate):
            yield Dangling(DanglingCode.AGENT_MISSING_DELEGATE, subject, delegate)
    for plugin_id in spec.active_hook_filter:
        if plugin_id not in spec.plugin_ids:
            yield Dangling(DanglingCode.HOOK_FILTER_NOT_LOADED, subject, plugin_id)


def _is_there(registries: RegistrySet, agent_id: str) -> bool:
    try:
        return registries.agents.get(agent_id) is not None
    except InvalidSpec:
        return True  # Its own fault is reported in an issue of its own.
