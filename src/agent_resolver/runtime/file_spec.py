"""Agent files as the runtime reads them, also those that were written for other tools."""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import structs

from agent_resolver.catalog.entry import Definition
from agent_resolver.catalog.reader import front_matter_tree
from agent_resolver.catalog.uri import SCHEME
from agent_resolver.runtime.errors import InvalidSpec
from agent_resolver.runtime.file_tools import list_faults, restrict_tools
from agent_resolver.runtime.spec import DEFAULT_MODEL, AgentSpec
from agent_resolver.runtime.spec_reader import parse_spec, refused
from agent_resolver.schema.agent_file import (
    Constraints,
    TrustConstraints,
    limits_in_front_matter,
    trust_contradictions,
)
from agent_resolver.schema.governing_key import governing_key_faults, place_below
from agent_resolver.schema.issue import Issue, IssueCode
from agent_resolver.schema.tree import Item, Mapping, Scalar, Sequence, located
from agent_resolver.schema.walker import walk

_SAME_AS_ALWAYS: Final = {"", "auto", "inherit"}
"""What other tools write for the model that everything else uses."""
_RUNTIME: Final = "runtime"
_MODEL: Final = "model"
_CONSTRAINTS: Final = {"constraints": Constraints, "trust": TrustConstraints}
_ELSEWHERE: Final = {
    "id": "`name`",
    "limits": "`constraints`",
    "requires_lock": "`requires`",
    "registry": "the file",
}
"""What of a spec the rest of the file says, and `runtime` may not."""
_OUTSIDE: Final = {"id": "name", "model_id": "model", "model_alternatives": "model"}
"""What of a spec other keys of the file say."""


def spec_of(definition: Definition, agent_id: str = "") -> AgentSpec:
    """The spec of an agent file: its front matter, what `runtime` says beyond it, and its body as the prompt.

    Args:
        definition: The file.
        agent_id: What the agent is called here, where that is not its name.

    Raises:
        InvalidSpec: With every fault of the keys that govern the agent, and where each is in the file.
    """
    entry = definition.entry
    tree = front_matter_tree(definition.raw)
    said = {item.key: item for item in tree.items}
    # All faults are collected before any is raised: the author should see them at once.
    faults = [
        *governing_key_faults(tree),
        *_constraint_faults(said),
        *trust_contradictions(tree),
    ]
    faults += list_faults(said)
    spec, spec_faults = _read_spec(definition, said)
    faults += spec_faults
    if faults or spec is None:
        raise InvalidSpec(faults, definition.file)
    # The prompt is the file's own text: nothing in it is a typing error.
    return structs.replace(
        restrict_tools(spec, said),
        id=agent_id or entry.name,
        description=spec.description or entry.description or None,
        system_prompt=spec.system_prompt or definition.content.strip(),
        delegates=tuple(delegate.removeprefix(SCHEME) for delegate in spec.delegates),
        limits=limits_in_front_matter(tree),
        requires_lock=entry.requires,
        registry=definition.file,
    )


def _read_spec(
    definition: Definition, said: dict[str, Item]
) -> tuple[AgentSpec | None, list[Issue]]:
    """The spec that the file states; None if it has faults, each of which is placed in the file."""
    try:
        return parse_spec(_spec_document(definition, said)), []
    except InvalidSpec as error:
        runtime = said.get(_RUNTIME)
        return None, [_place_in_file(issue, runtime) for issue in error.issues]


def _spec_document(definition: Definition, said: dict[str, Item]) -> Mapping:
    """The part of the file that states its spec: `runtime`, and the other keys where it does not."""
    first, *others = _model_names(definition.entry.model, said.get(_MODEL))
    values: dict[str, Any] = {"id": definition.entry.name, "model_id": first}
    runtime = said[_RUNTIME].value if _RUNTIME in said else Mapping((), 1, 1)
    if not isinstance(runtime, Mapping):
        raise InvalidSpec(
            [located(said[_RUNTIME], IssueCode.INVALID_TYPE, "Expected object")]
        )
    taken = {item.key for item in runtime.items}
    if elsewhere := [item for item in runtime.items if item.key in _ELSEWHERE]:
        raise InvalidSpec(
            [
                _unknown_key(item, f"Unknown key: {_ELSEWHERE[item.key]} says it")
                for item in elsewhere
            ]
        )
    # A `model_id` in `runtime` takes the place of the key `model`, and so the
    # alternatives in that key are dropped.
    if others and "model_id" not in taken:
        values["model_alternatives"] = others
    outside = [
        _make_item(name, value, said.get(_OUTSIDE[name]))
        for name, value in values.items()
        if name not in taken
    ]
    return Mapping((*outside, *runtime.items), runtime.line, runtime.column)


def _model_names(entry_model: str | None, said: Item | None) -> list[str]:
    """The models that a file names, the first choice first: one name, names with commas between, or a list of them."""
    names = (entry_model or "").split(",")
    if not entry_model and said and isinstance(said.value, Sequence):
        # An empty list still names one model: the default.
        names = [
            str(item.value) for item in said.value.items if isinstance(item, Scalar)
        ] or [""]
    elif said and isinstance(said.value, Mapping):
        raise InvalidSpec(
            [
                located(
                    said, IssueCode.INVALID_TYPE, "Expected a name, or a list of names"
                ).within(_MODEL)
            ]
        )
    return [_model_name(name) for name in names]


def _model_name(written: str) -> str:
    """The name of a model without the blanks around it; the default's, for words that mean the default."""
    name = written.strip()
    return DEFAULT_MODEL if name.casefold() in _SAME_AS_ALWAYS else name


def _make_item(name: str, value: str | list[str], origin: Item | None) -> Item:
    place = (origin.line, origin.column) if origin else (1, 1)
    if isinstance(value, str):
        return Item(name, *place, Scalar(value, *place))
    return Item(
        name, *place, Sequence(tuple(Scalar(each, *place) for each in value), *place)
    )


def _place_in_file(issue: Issue, runtime: Item | None) -> Issue:
    """The issue of a spec as one of the file."""
    items = (
        runtime.value.items if runtime and isinstance(runtime.value, Mapping) else ()
    )
    name = issue.at[0] if issue.at else ""
    # The value came from a key outside of `runtime`, so the fault is shown there.
    if name in _OUTSIDE and all(item.key != name for item in items):
        return structs.replace(issue, at=(_OUTSIDE[str(name)], *issue.at[1:]))
    return issue.within(_RUNTIME)


def _constraint_faults(said: dict[str, Item]) -> Iterator[Issue]:
    """Whatever is wrong there is refused, since it would open what it should shut."""
    for key, kind in _CONSTRAINTS.items():
        for issue in refused(walk(said[key].value, kind)) if key in said else ():
            fault = issue.within(key)
            yield place_below(fault) if fault.code is IssueCode.UNKNOWN_KEY else fault


def _unknown_key(item: Item, message: str, hint: str = "") -> Issue:
    issue = located(item, IssueCode.UNKNOWN_KEY, message, hint=hint)
    return issue.within(item.key)
