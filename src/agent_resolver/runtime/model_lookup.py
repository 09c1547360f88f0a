"""Finds the model that a name means: in the settings, then by their catch-all, then among those that need no entry."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, structs

from agent_resolver.runtime.errors import AmbiguousModelReference, ModelNotFound
from agent_resolver.runtime.model import ModelPool, ModelSpec, in_turn
from agent_resolver.runtime.plan import PlanWarning, WarningCode
from agent_resolver.runtime.registry_set import RegistrySet
from agent_resolver.runtime.spec import DEFAULT_MODEL, AgentSpec
from agent_resolver.schema.walker import suggestion

CATCH_ALL: Final = "*"
"""The id of the model that stands for every name that is not otherwise in the settings."""
_REMARK: Final = re.compile(r"\s*\([^()]*\)\s*$")
_SEPARATORS: Final = re.compile(r"[\s._-]+")


class FoundModels(Struct, frozen=True, kw_only=True):
    """The model of a spec, or the members of its pool in the order in which they are tried."""

    models: tuple[ModelSpec, ...]
    pool: ModelPool | None = None
    warnings: tuple[PlanWarning, ...] = ()


class _Meaning(Struct, frozen=True):
    """What a name means here."""

    found: ModelSpec | ModelPool
    is_as_written: bool = True
    """False if the name had to be read as another one."""


def find_models(registries: RegistrySet, spec: AgentSpec) -> FoundModels:
    """The model of a spec: the first of the names in it that means one here.

    Raises:
        ModelNotFound: None of them does.
        AmbiguousModelReference: A model and a pool have the name.
    """
    names = list(dict.fromkeys((spec.model_id, *spec.model_alternatives)))
    for name in names:
        meaning = _meaning_of(registries, name)
        if meaning is None:
            continue
        warnings = (*_mapped_warning(name, meaning), *_ignored_warning(name, names))
        pool = meaning.found
        if isinstance(pool, ModelSpec):
            return FoundModels(models=(pool,), warnings=warnings)
        # The order follows from the id of the agent, so that agents spread over the
        # members.
        members = [
            _find_member(registries, member.model_id)
            for member in in_turn(pool, spec.id)
        ]
        return FoundModels(models=tuple(members), pool=pool, warnings=warnings)
    known = [
        name
        for name in (*registries.models, *registries.pools, *registries.known_models)
        if name != CATCH_ALL
    ]
    hint = (
        suggestion(spec.model_id, known) if spec.model_id else "the spec names no model"
    )
    raise ModelNotFound(", ".join(names), hint)


def has_model(registries: RegistrySet, name: str) -> bool:
    """True if a name means a model or a pool here."""
    return _meaning_of(registries, name) is not None


def _find_member(registries: RegistrySet, name: str) -> ModelSpec:
    # A pool cannot be a member of another pool.
    meaning = _meaning_of(registries, name, has_pools=False)
    if meaning is None or isinstance(meaning.found, ModelPool):
        raise ModelNotFound(name, suggestion(name, registries.models))
    return meaning.found


def _meaning_of(
    registries: RegistrySet, name: str, *, has_pools: bool = True
) -> _Meaning | None:
    """The model or pool that a name means; None if it means none.

    1. A model, an alias or a pool of the settings, as it is written.
    2. The same, written as other tools write names: `GPT-5 (copilot)` for `gpt-5`.
    3. The catch-all of the settings: an operator who has one decided where all other names go.
    4. A model that needs no entry, in either spelling.
    """
    # A pool without members answers nothing, and so its name means nothing.
    pools = (
        {key: pool for key, pool in registries.pools.items() if pool.members}
        if has_pools
        else {}
    )
    if not name or name == CATCH_ALL:
        return None
    if meaning := _meaning_in_settings(registries.models, pools, name):
        return meaning
    if CATCH_ALL in registries.models:
        caught = _caught(registries.models[CATCH_ALL], name)
        return _Meaning(caught) if caught else None
    known = _find_known(registries, name)
    return _Meaning(known, is_as_written=known.id == name) if known else None


def _meaning_in_settings(
    models: Mapping[str, ModelSpec], pools: Mapping[str, ModelPool], name: str
) -> _Meaning | None:
    """The model or pool that has the name, as it is written or in the spelling of another tool."""
    model = models.get(name)
    pool = pools.get(name)
    # One namespace for both, or the order of the lookup would decide between them.
    if model and pool:
        raise AmbiguousModelReference(name)
    if found := model or pool:
        return _Meaning(found)
    if similar := _same_folded(name, (*models, *pools)):
        found = models.get(similar) or pools[similar]
        return _Meaning(found, is_as_written=False)
    return None


def _find_known(registries: RegistrySet, name: str) -> ModelSpec | None:
    """A model that needs no entry. A prefix such as `openai/` must be that of its provider, or it says another one."""
    prefix, slash, rest = name.partition("/")
    bare = rest if slash else name
    known = registries.known_models.get(bare)
    if known is None and (similar := _same_folded(bare, registries.known_models)):
        known = registries.known_models[similar]
    return (
        known
        if known and (not slash or prefix.casefold() == known.provider_id)
        else None
    )


def _caught(catch_all: ModelSpec, name: str) -> ModelSpec | None:
    """The catch-all as the model of a name; its provider is asked for that name, unless the settings name another."""
    upstream = catch_all.upstream_model
    if upstream == CATCH_ALL:
        if name == DEFAULT_MODEL:
            return None  # No provider has a model of that name: which one is meant is for the settings to say.
        upstream = name
    return structs.replace(catch_all, id=name, upstream_model=upstream, aliases=())


def _same_folded(name: str, known: Iterable[str]) -> str | None:
    """The one name that differs in capitals, separators or a remark in parentheses alone."""
    folded = _fold_name(name)
    same = sorted(
        {other for other in known if other != CATCH_ALL and _fold_name(other) == folded}
    )
    # Two names that read alike are a tie, and a tie is not broken by chance.
    return same[0] if len(same) == 1 else None


def _fold_name(name: str) -> str:
    return _SEPARATORS.sub("-", _REMARK.sub("", name).strip().casefold())


def _mapped_warning(name: str, meaning: _Meaning) -> Iterable[PlanWarning]:
    if not meaning.is_as_written:
        message = f"model `{name}` is read as `{meaning.found.id}`"
        if name == DEFAULT_MODEL:  # It means that the agent file names none.
            message = f"no model is named, so `{meaning.found.id}` answers"
        yield PlanWarning(WarningCode.MODEL_NAME_MAPPED, name, message)


def _ignored_warning(used: str, names: list[str]) -> Iterable[PlanWarning]:
    others = [name for name in names if name != used]
    if others:
        listed = ", ".join(f"`{other}`" for other in others)
        message = f"of the models that it names, `{used}` is used, and not {listed}"
        yield PlanWarning(WarningCode.MODEL_IGNORED, ", ".join(others), message)
