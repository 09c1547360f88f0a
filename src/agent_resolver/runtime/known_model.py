"""Models that need no entry in the settings: the table that comes with the package, read when it is first needed."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final, Literal

import msgspec
from msgspec import Struct

from agent_resolver.runtime.model import Modalities, ModelSpec
from agent_resolver.runtime.registry_set import ModelFacts

_FILE: Final = "known_models.toml"


class KnownPrices(Struct, frozen=True, forbid_unknown_fields=True):
    """What a million tokens cost, in US dollars."""

    input: float
    output: float


class KnownModel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a provider publishes of a model; what it does not publish is left out."""

    provider: str
    snapshots: tuple[str, ...] = ()
    """Other names under which the provider serves the same model, each taken as it is."""
    context_window: int | None = None
    max_output_tokens: int | None = None
    modalities: Modalities = Modalities()
    knowledge_cutoff: str | None = None
    prices: KnownPrices | None = None

    @property
    def facts(self) -> ModelFacts:
        """The facts that are good enough to plan with."""
        return ModelFacts(
            context_window=self.context_window,
            max_output_tokens=self.max_output_tokens,
            modalities=self.modalities,
            knowledge_cutoff=self.knowledge_cutoff,
        )

    def spec(self, name: str) -> ModelSpec:
        """The model under one of its names. Nothing is known of where its provider keeps data."""
        input_price = self.prices.input if self.prices else None
        output_price = self.prices.output if self.prices else None
        return ModelSpec(
            id=name,
            provider_id=self.provider,
            upstream_model=name,
            input_price=input_price,
            output_price=output_price,
        )


class KnownProvider(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider that needs no entry in the settings; its key is in the variable that it is usually in."""

    adapter: Literal["langchain", "openai"]
    api_key_env: str


class KnownModels(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table."""

    as_of: str
    """The month in which it was last compared with what providers publish."""
    families: dict[str, str]
    """The newest model of each family, by what other tools call it."""
    providers: dict[str, KnownProvider]
    models: dict[str, KnownModel]

    def specs(self) -> Mapping[str, ModelSpec]:
        """Every model by each of its names."""
        return MappingProxyType(
            {name: model.spec(name) for name, model in self._by_name()}
        )

    def facts(self) -> dict[str, ModelFacts]:
        """The facts of every model, by each of its names."""
        return {name: model.facts for name, model in self._by_name()}

    def _by_name(self) -> Iterator[tuple[str, KnownModel]]:
        """Each model once for each of its names."""
        for name, model in self.models.items():
            yield name, model
            for snapshot in model.snapshots:
                yield snapshot, model


@cache
def known_models() -> KnownModels:
    """The table that comes with the package."""
    text = files("agent_resolver.runtime").joinpath(_FILE).read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), KnownModels)
