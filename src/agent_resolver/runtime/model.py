"""Models, and pools of them, as an agent spec names them."""

import math
import re
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

from msgspec import Meta, Struct, field

from agent_resolver.schema.frozen import freeze_fields
from agent_resolver.schema.vocabulary import (
    SENSITIVITY_RANK,
    Residency,
    Sensitivity,
    Text,
)

Modality = Literal["text", "image", "audio", "video", "pdf"]
_MONTH: Final = re.compile(r"\d{4}-\d{2}(-\d{2})?")
_PositiveInteger = Annotated[int, Meta(ge=1)]
_Value = TypeVar("_Value", float, str)


class Modalities(Struct, frozen=True, kw_only=True):
    """What a model takes and gives; nothing is unspecified."""

    input: tuple[Modality, ...] = ()
    output: tuple[Modality, ...] = ()

    def faults(self) -> Iterator[str]:
        """The lists that name a modality twice."""
        for name, values in (("input", self.input), ("output", self.output)):
            if len(set(values)) != len(values):
                yield f"{name} has duplicates"


class DataFacts(Struct, frozen=True, kw_only=True, rename="camel"):
    """What data may go there; what is not stated is not known, and no constraint accepts it."""

    residency: tuple[Residency, ...] | None = None
    max_sensitivity: Sensitivity | None = None


class ModelSpec(Struct, frozen=True, kw_only=True):
    """One model of one provider."""

    id: Text
    provider_id: Text
    upstream_model: Text
    """What the provider calls it."""
    context_window: _PositiveInteger | None = None
    max_output_tokens: _PositiveInteger | None = None
    modalities: Modalities = Modalities()
    knowledge_cutoff: str | None = None
    """`YYYY-MM` or `YYYY-MM-DD`."""
    input_price: float | None = None
    """US dollars for a million tokens."""
    output_price: float | None = None
    aliases: tuple[Text, ...] = ()
    """Other names that agent files may use, such as `sonnet`."""
    data: DataFacts = DataFacts()

    def cost(self, input_tokens: int, output_tokens: int) -> float | None:
        """The cost of a request in US dollars; None unless both prices are known."""
        if self.input_price is None or self.output_price is None:
            return None
        return (
            input_tokens * self.input_price + output_tokens * self.output_price
        ) / 1_000_000

    def faults(self) -> Iterator[str]:
        """The faults that the types of its fields do not show."""
        if (
            self.context_window
            and self.max_output_tokens
            and self.max_output_tokens > self.context_window
        ):
            yield "max_output_tokens must not exceed context_window"
        for fault in self.modalities.faults():
            yield f"modalities.{fault}"
        if self.knowledge_cutoff is not None and not _is_month(self.knowledge_cutoff):
            yield "knowledge_cutoff must be YYYY-MM or YYYY-MM-DD"
        for name in ("input_price", "output_price"):
            price = getattr(self, name)
            if price is not None and price < 0:
                yield f"{name} must be 0 or more"


class PoolMember(Struct, frozen=True, kw_only=True):
    """A model in a pool."""

    model_id: Text
    weight: _PositiveInteger = 1
    role: Literal["member", "failover_only"] = "member"


class Routing(Struct, frozen=True, kw_only=True):
    """Which member an agent starts with, and for how long it stays there."""

    home: Literal["deterministic", "round_robin", "first_healthy"] = "deterministic"
    sticky: Literal["thread", "run"] = "thread"


class Switch(Struct, frozen=True, kw_only=True):
    """When another member takes over."""

    on_circuit_open: bool = True
    on_quota: bool = True
    on_permanent: bool = True
    thresholds: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        freeze_fields(self, "thresholds")


class ModelPool(Struct, frozen=True, kw_only=True):
    """Models that stand in for each other."""

    id: Text
    members: tuple[PoolMember, ...] = field(default=())
    routing: Routing = Routing()
    switch: Switch = Switch()

    def faults(self) -> Iterator[str]:
        """The faults that the types of its fields do not show."""
        if not self.members:
            yield "members must not be empty"
        elif all(member.role == "failover_only" for member in self.members):
            yield "at least one member must not be failover_only"
        if len({member.model_id for member in self.members}) != len(self.members):
            yield "members has duplicates"


def in_turn(pool: ModelPool, agent_id: str) -> tuple[PoolMember, ...]:
    """The members in the order in which an agent tries them: its home, the others, and those for failures only."""
    home = home_of(pool, agent_id)
    # Sorting is stable: members that count alike stay in the order of the pool.
    return tuple(
        sorted(
            pool.members,
            key=lambda member: (member is not home, member.role == "failover_only"),
        )
    )


def home_of(pool: ModelPool, agent_id: str) -> PoolMember:
    """The member an agent starts with, the same on every machine: weighted rendezvous, ties to the first.

    The higher a member's weight, the more agents call it home; adding a member moves only the agents that it takes.
    Where the home depends on what happens while agents run, planning starts from the first.
    """
    members = [
        member for member in pool.members if member.role == "member"
    ] or pool.members
    if pool.routing.home != "deterministic":
        return members[0]
    scores = [_score_member(agent_id, member) for member in members]
    return members[scores.index(max(scores))]


def _score_member(agent_id: str, member: PoolMember) -> float:
    # The zero byte keeps the two ids apart, so that no other pair of them gives the
    # same bytes.
    hashed = _mix_bits(
        fnv1a(f"{agent_id}\0{member.model_id}".encode(errors="surrogatepass"))
    )
    # With this score, each member is home to a share of the agents that is in
    # proportion to its weight.
    return member.weight / -math.log(share_of(hashed))


def share_of(hashed: int) -> float:
    """A number between 0 and 1, and never either: the logarithm of one is nothing to divide by, that of 0 is none."""
    # The half keeps it off both ends; numerator and result each fit into the 53 bits of
    # a float.
    return ((hashed >> 12) + 0.5) / 2**52


def fnv1a(content: bytes) -> int:
    """The 64-bit FNV-1a hash."""
    # The offset basis and, below, the prime of 64-bit FNV-1a.
    hashed = 0xCBF29CE484222325
    for byte in content:
        hashed = (hashed ^ byte) * 0x100000001B3 % 2**64
    return hashed


def _mix_bits(hashed: int) -> int:
    """The hash with every bit in every other: by itself, names that differ at the end have nearly the same."""
    # The finalizer of SplitMix64.
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        hashed = (hashed ^ (hashed >> shift)) * factor % 2**64
    return hashed ^ (hashed >> 31)


def pooled(pool: ModelPool, models: Iterable[ModelSpec]) -> ModelSpec:
    """The facts that hold for every member of a pool: the least of each, and not known where one does not say.

    A cut-off of knowledge and prices are the pool's only where all members have the same: who answers is not known.
    """
    members = list(models)
    first = members[0]
    return ModelSpec(
        id=pool.id,
        # A pool has no provider: these are the names of its first member, and each seat
        # puts its own in their place.
        provider_id=first.provider_id,
        upstream_model=first.upstream_model,
        context_window=_least_known([m.context_window for m in members]),
        max_output_tokens=_least_known([m.max_output_tokens for m in members]),
        knowledge_cutoff=_common_value([m.knowledge_cutoff for m in members]),
        input_price=_common_value([m.input_price for m in members]),
        output_price=_common_value([m.output_price for m in members]),
        modalities=Modalities(
            input=_shared_modalities([m.modalities.input for m in members]),
            output=_shared_modalities([m.modalities.output for m in members]),
        ),
        data=DataFacts(
            residency=_common_residency(members),
            max_sensitivity=_lowest_sensitivity(members),
        ),
    )


def _least_known(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return min(known) if len(known) == len(values) else None


def _common_value(values: list[_Value | None]) -> _Value | None:
    return values[0] if len(set(values)) == 1 else None


def _shared_modalities(values: list[tuple[Modality, ...]]) -> tuple[Modality, ...]:
    # A member that says nothing leaves open what all of them share.
    if not all(values):
        return ()
    known: tuple[Modality, ...] = get_args(Modality)
    return tuple(each for each in known if all(each in other for other in values))


def _common_residency(members: list[ModelSpec]) -> tuple[Residency, ...] | None:
    """The regions where all of them may keep data: `any` of one is whatever the others say."""
    narrowed: tuple[Residency, ...] | None = ("any",)
    for member in members:
        stated = member.data.residency
        if stated is None or narrowed is None:
            return None
        # `any` narrows nothing; the first member that names places takes its place.
        if "any" not in stated:
            narrowed = (
                stated
                if "any" in narrowed
                else tuple(each for each in narrowed if each in stated)
            )
    # Without a common place the tuple is empty, and no constraint accepts it.
    return tuple(sorted(narrowed)) if narrowed else narrowed


def _lowest_sensitivity(members: list[ModelSpec]) -> Sensitivity | None:
    levels: list[Sensitivity] = [
        member.data.max_sensitivity for member in members if member.data.max_sensitivity
    ]
    if len(levels) < len(members):
        return None
    lowest: Sensitivity = min(levels, key=lambda level: SENSITIVITY_RANK[level])
    return lowest


def _is_month(text: str) -> bool:
    if not _MONTH.fullmatch(text):
        return False
    try:
        # A month gets its first day, so that the calendar checks both forms.
        date.fromisoformat(text if len(text) > len("YYYY-MM") else f"{text}-01")
    except ValueError:
        return False
    return True
