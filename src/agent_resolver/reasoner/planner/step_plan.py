"""The steps of a plan, and where each of their inputs comes from.

An input is stated in the request, comes from an earlier step, or is open, and then it is asked for. Optional inputs are
left out unless they are stated. A tool that only reads is added where it finds the one thing that an open input
identifies, from values that the request states.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import UNSET, Struct, UnsetType, structs

from agent_resolver.core.schema_document import bare
from agent_resolver.reasoner.planner.clause import Clause, StatedDetail
from agent_resolver.reasoner.planner.data_flow import (
    OutputMember,
    is_recipient,
    means_same,
    member_fits,
    outputs_of,
    reference,
)
from agent_resolver.reasoner.planner.input_field import InputField
from agent_resolver.reasoner.planner.masked_text import FILLER, MaskedText, mask_text
from agent_resolver.reasoner.planner.stated_value import Stated, read_named, read_stated
from agent_resolver.reasoner.planner.tool_profile import (
    ToolProfile,
    is_read_only,
    nouns_of,
)
from agent_resolver.reasoner.planner.word import split_words
from agent_resolver.schema.blueprint import MAX_UNBATCHED_ITEMS, ForEach
from agent_resolver.schema.descriptor import Descriptor

_MAX_STEP_ID: Final = 56


class ToolTask(Struct, frozen=True, kw_only=True):
    """A tool, and what the request says about its call."""

    profile: ToolProfile
    clauses: tuple[Clause, ...] = ()
    details: tuple[StatedDetail, ...] = ()
    """Parts that state values right after its clauses."""
    common: tuple[StatedDetail, ...] = ()
    """Parts that state values elsewhere."""


class StepInput(Struct, frozen=True, kw_only=True):
    """The source of one input of a step."""

    field: InputField
    words: tuple[str, ...] = ()
    """What the request states for it."""
    template: str = ""
    """Where an earlier step has it; empty if it becomes an input of the blueprint."""
    shares: tuple[str, str] | None = None
    """The step and field whose input of the blueprint it shares."""


class PlannedStep(Struct, frozen=True, kw_only=True):
    """One call."""

    id: str
    tool: Descriptor
    inputs: tuple[StepInput, ...]
    for_each: ForEach | UnsetType = UNSET
    reads: tuple[str, ...] = ()
    """The steps that it takes values from."""


class StepPlan(Struct, frozen=True, kw_only=True):
    """The steps of a request, and the values of the request that they take."""

    steps: tuple[PlannedStep, ...]
    used: dict[MaskedText, list[tuple[int, int]]]
    """Maps each text that was read to the places of the values that a step takes."""
    words: tuple[tuple[str, ...], ...]
    """The values that are stated for each task."""


def plan_steps(tasks: Sequence[ToolTask], profiles: Sequence[ToolProfile]) -> StepPlan:
    """Make a step of each task, in order, with the steps that find what it needs before it."""
    plan = _StepPlan(profiles, {task.profile.id for task in tasks})
    for task in tasks:
        plan.add(task)
    # An identifier that a later step states is known only once all steps are there.
    plan.share_forward()
    return StepPlan(steps=tuple(plan.steps), used=plan.used, words=tuple(plan.words))


class _StepSource(Struct, frozen=True, kw_only=True):
    """An output of an earlier step that could be an input."""

    step: PlannedStep
    member: OutputMember
    origin: str
    """The same for two outputs that are the same value, because one step got it from the other."""


class _StepPlan:
    """The steps so far."""

    def __init__(self, profiles: Sequence[ToolProfile], chosen: set[str]) -> None:
        self._profiles = profiles
        self._chosen = chosen
        self.steps: list[PlannedStep] = []
        self.used: dict[MaskedText, list[tuple[int, int]]] = {}
        self.words: list[tuple[str, ...]] = []
        # The ids of steps whose clauses have a pronoun, which a later clause may
        # explain.
        self._referring: set[str] = set()

    def add(self, task: ToolTask) -> None:
        """Add the step of a task."""
        profile = task.profile
        stated = _stated(task, profile.fields, self.used)
        self.words.append(
            tuple(word for words in stated.values.values() for word in words)
        )
        inputs: list[StepInput] = []
        lists: list[_StepSource] = []
        for field in profile.fields:
            words = stated.values.get(field.name, ())
            if words:
                inputs.append(StepInput(field=field, words=words))
            elif field.is_required:
                found, source = self._found(field, task, stated)
                inputs.append(found)
                # An input that is one of the items of a list makes the step run once
                # for each item.
                if source:
                    lists.append(source)
        step = self._append(profile.tool, inputs, lists)
        if _has_pronoun(task):
            self._referring.add(step.id)

    def share_forward(self) -> None:
        """Give a step the identifier that a later one states: "close ticket 4 after adding a comment to it"."""
        for place, step in enumerate(self.steps):
            if step.id in self._referring:
                inputs = tuple(
                    self._shared_forward(each, step, self.steps[place + 1 :])
                    for each in step.inputs
                )
                self.steps[place] = structs.replace(step, inputs=inputs)

    def _shared_forward(
        self,
        each: StepInput,
        step: PlannedStep,
        later: Sequence[PlannedStep],
    ) -> StepInput:
        is_open = not (each.words or each.template or each.shares)
        if not is_open:
            return each
        shared = _shared_input(each.field, step.tool, later, is_stated=True)
        return structs.replace(each, shares=shared) if shared else each

    def _append(
        self,
        tool: Descriptor,
        inputs: list[StepInput],
        lists: list[_StepSource],
    ) -> PlannedStep:
        over = {(each.step.id, each.member.path) for each in lists}
        for_each: ForEach | UnsetType = UNSET
        if len(over) == 1:
            for_each = _for_each(lists[0])
        elif over:
            # Two lists have no common items: what to take together only the person can
            # say.
            inputs = [_without_item(each) for each in inputs]
        reads = dict.fromkeys(
            _step_in(each.template)
            for each in inputs
            if each.template.startswith("${steps.")
        )
        if for_each:
            reads[lists[0].step.id] = None
        step = PlannedStep(
            id=self._new_id(tool),
            tool=tool,
            inputs=tuple(inputs),
            for_each=for_each,
            reads=tuple(reads),
        )
        self.steps.append(step)
        return step

    # Where an input comes from --------------------------------------------------------

    def _found(
        self,
        field: InputField,
        task: ToolTask,
        stated: Stated,
    ) -> tuple[StepInput, _StepSource | None]:
        """The source of a required input that is not stated, and the list that it is one of each item of."""
        refers_back = _has_pronoun(task)
        sources = [*self._sources(field, task.profile.tool, refers_back=refers_back)]
        single = _one([each for each in sources if not each.member.is_item], task)
        if single:
            template = reference(f"steps.{single.step.id}", single.member.path)
            return StepInput(field=field, template=template), None
        if shared := _shared_input(field, task.profile.tool, self.steps):
            return StepInput(field=field, shares=shared), None
        listed = _one([each for each in sources if each.member.is_item], task)
        # A step runs over a list only where the clause is about several things; else it
        # acts on too many.
        if listed and _is_plural(task):
            template = reference("item", listed.member.inside)
            return StepInput(field=field, template=template), listed
        feeding = None if listed else self._fed(field, task, stated)
        return feeding or (StepInput(field=field), None)

    def _sources(
        self,
        field: InputField,
        taker: Descriptor,
        *,
        refers_back: bool,
    ) -> Iterator[_StepSource]:
        for step in self.steps:
            # The result of a step over a list is a list of results, none of which is
            # the one that is meant.
            if step.for_each:
                continue
            for member in outputs_of(step.tool):
                is_same = means_same(member, step.tool, field, taker) or (
                    refers_back and is_recipient(member, field)
                )
                if is_same and member_fits(member, step.tool, field):
                    origin = self._origin(step, member)
                    yield _StepSource(step=step, member=member, origin=origin)

    def _origin(self, step: PlannedStep, member: OutputMember) -> str:
        """The first place of the value of an output: a step that returns an input unchanged returns the same value."""
        for each in step.inputs:
            is_same = each.field.name == member.field.name or (
                each.field.is_identifier
                and member.field.is_identifier
                and (each.field.noun or member.thing) == member.thing
            )
            if is_same and each.template and not member.is_item:
                return each.template
        return reference(f"steps.{step.id}", (*member.path, *member.inside))

    def _fed(
        self,
        field: InputField,
        task: ToolTask,
        stated: Stated,
    ) -> tuple[StepInput, _StepSource | None] | None:
        """An input from a tool that only reads, and that the request states all required inputs of."""
        if not field.is_identifier or not task.clauses:
            return None
        # The values that the tool takes itself are blanked, so that a lookup cannot
        # claim them too.
        rest = _without(task.clauses[0].source, stated.spans)
        is_plural = _is_plural(task)
        feeders = [
            (profile, member)
            for profile, member in self._feeders(field, task.profile.tool)
            # One thing is looked up with a tool that returns one, and several with a
            # tool that returns a list.
            if member.is_item == is_plural and _is_given(profile, rest)
        ]
        # Of several tools that could find it none is picked: the input stays open, and
        # the person is asked.
        if len(feeders) != 1:
            return None
        profile, member = feeders[0]
        given = read_stated(rest, profile.fields, profile.things)
        inputs = [
            StepInput(field=each, words=given.values[each.name])
            for each in profile.fields
            if each.name in given.values
        ]
        self.used.setdefault(task.clauses[0].source, []).extend(given.spans)
        # The lookup is added here, and its caller adds the step that takes the value
        # after it.
        step = self._append(profile.tool, inputs, [])
        if not member.is_item:
            template = reference(f"steps.{step.id}", member.path)
            return StepInput(field=field, template=template), None
        # Origins tell sources apart that could be meant; this source is the only one.
        source = _StepSource(step=step, member=member, origin="")
        template = reference("item", member.inside)
        return StepInput(field=field, template=template), source

    def _feeders(
        self, field: InputField, taker: Descriptor
    ) -> Iterator[tuple[ToolProfile, OutputMember]]:
        for profile in self._profiles:
            # A tool that the request asks for has a step of its own, with the values
            # that are stated for it.
            if profile.id in self._chosen or not is_read_only(profile.tool):
                continue
            # A tool that takes the very thing cannot find it.
            required = {each.name for each in profile.fields if each.is_required}
            if field.name in required:
                continue
            for member in outputs_of(profile.tool):
                is_same = means_same(member, profile.tool, field, taker)
                if is_same and member_fits(member, profile.tool, field):
                    yield profile, member

    # Names ----------------------------------------------------------------------------

    def _new_id(self, tool: Descriptor) -> str:
        taken = {step.id for step in self.steps}
        last = _slug(tool.id.rpartition(".")[2])
        longer = _slug(f"{last}_{'_'.join(nouns_of(tool))}")
        # One number more than there are taken ids is always enough.
        numbered = (f"{last}_{number}" for number in range(2, len(taken) + 3))
        return next(name for name in (last, longer, *numbered) if name not in taken)


def _one(sources: list[_StepSource], task: ToolTask) -> _StepSource | None:
    """The source that is meant: the only one, or with a pronoun the last one."""
    by_origin: dict[str, _StepSource] = {}
    for each in sources:
        by_origin.setdefault(each.origin, each)
    found = [*by_origin.values()]
    # A pronoun means the thing that was mentioned last.
    is_clear = len(found) == 1 or _has_pronoun(task)
    return found[-1] if found and is_clear else None


def _has_pronoun(task: ToolTask) -> bool:
    return any(clause.has_pronoun for clause in task.clauses)


def _is_plural(task: ToolTask) -> bool:
    return any(clause.is_plural for clause in task.clauses)


def _shared_input(
    field: InputField,
    taker: Descriptor,
    steps: Sequence[PlannedStep],
    *,
    is_stated: bool = False,
) -> tuple[str, str] | None:
    """The step and field of the one input among some steps that identifies the same thing."""
    if not field.is_identifier:
        return None
    found = []
    for step in steps:
        for each in step.inputs:
            # A template is a value of an earlier step, and not an input of the plan.
            may_share = not each.template and (each.words or not is_stated)
            if may_share and _identify_same(each.field, step.tool, field, taker):
                # An input that shares another one already leads to the field that owns
                # it.
                found.append(each.shares or (step.id, each.field.name))
    distinct = [*dict.fromkeys(found)]
    return distinct[0] if len(distinct) == 1 else None


def _identify_same(
    one: InputField,
    tool: Descriptor,
    other: InputField,
    taker: Descriptor,
) -> bool:
    """True if fields of two tools identify the same thing in the same way."""
    if not (one.is_identifier and other.is_identifier):
        return False
    # One input of the blueprint serves two fields only if their schemas are the same
    # but for annotations.
    is_same_thing = _thing_of(one, tool) == _thing_of(other, taker)
    return is_same_thing and bare(one.schema) == bare(other.schema)


def _thing_of(field: InputField, tool: Descriptor) -> str:
    """The thing that a field identifies: the one that it names, else the one that its tool is about."""
    return field.noun or nouns_of(tool)[-1]


def _without_item(each: StepInput) -> StepInput:
    """The input as an open one if it is a value of each item of a list; else as it was."""
    return StepInput(field=each.field) if each.template.startswith("${item") else each


def _for_each(source: _StepSource) -> ForEach:
    most = source.member.max_items
    items = reference(f"steps.{source.step.id}", source.member.path)
    # The format of blueprints demands batches above this bound.
    if most > MAX_UNBATCHED_ITEMS:
        return ForEach(items=items, max_items=most, batch_size=MAX_UNBATCHED_ITEMS)
    return ForEach(items=items, max_items=most)


def _step_in(template: str) -> str:
    # The id comes first in the path, which then goes on with `.name` or `["name"]`, or
    # ends.
    return (
        template.removeprefix("${steps.")
        .partition(".")[0]
        .partition("[")[0]
        .removesuffix("}")
    )


def _slug(text: str) -> str:
    name = "_".join(word for word in split_words(text) if word.isascii())[
        :_MAX_STEP_ID
    ].strip("_")
    return name if name[:1].isalpha() else f"step_{name}".strip("_")


# What the request states --------------------------------------------------------------


def _stated(
    task: ToolTask,
    fields: Sequence[InputField],
    used: dict[MaskedText, list[tuple[int, int]]],
) -> Stated:
    """Reads the values in the clauses of a task, then after them, then those stated for the whole request.

    Args:
        task: The task.
        fields: The fields of its tool.
        used: Collects the places of the values, by the text that they are in.
    """
    things = task.profile.things
    values: dict[str, tuple[str, ...]] = {}
    spans: tuple[tuple[int, int], ...] = ()
    for number, clause in enumerate(task.clauses):
        # A field that an earlier clause states is not read again from a later one.
        stated = read_stated(
            clause.source,
            _open(fields, values),
            [*things, *clause.heads[:1]],
            clause.verb,
        )
        values.update(stated.values)
        # Only the first clause is searched for the values of a lookup, so that only its
        # used places matter.
        spans = stated.spans if number == 0 else spans
        used.setdefault(clause.source, []).extend(stated.spans)
    own = [
        read_stated(detail.source, _open(fields, values), things)
        for detail in task.details
    ]
    values.update(_joined(own))
    # What is stated elsewhere counts only with a name: it may be meant for any of the
    # steps.
    common = [
        read_named(detail.source, _open(fields, values), things)
        for detail in task.common
    ]
    values.update(_joined(common))
    for detail, stated in zip(
        (*task.details, *task.common), (*own, *common), strict=True
    ):
        used.setdefault(detail.source, []).extend(stated.spans)
    return Stated(values=values, spans=spans)


def _joined(stated: Sequence[Stated]) -> dict[str, tuple[str, ...]]:
    """All that several parts state; a field that two of them state differently keeps both."""
    found: dict[str, tuple[str, ...]] = {}
    for each in stated:
        for name, words in each.values.items():
            both = (*found.get(name, ()), *words)
            found[name] = tuple(dict.fromkeys(both))
    return found


def _open(
    fields: Sequence[InputField], values: dict[str, tuple[str, ...]]
) -> list[InputField]:
    return [field for field in fields if field.name not in values]


def _without(source: MaskedText, spans: Sequence[tuple[int, int]]) -> MaskedText:
    """A text without the parts that have been used."""
    text = source.text
    for start, end in spans:
        # Blanks of the same length keep the places of what is left.
        blank = " " * (end - start)
        text = text[:start] + blank + text[end:]
    return mask_text(text.replace(FILLER, " "))


def _is_given(profile: ToolProfile, source: MaskedText) -> bool:
    """True if a text states all that a tool must be told."""
    given = read_stated(source, profile.fields, profile.things)
    required = [field for field in profile.fields if field.is_required]
    return bool(required) and all(
        len(given.values.get(field.name, ())) == 1 for field in required
    )
