"""Documents to agent specs: whatever is wrong with one is refused, all of it at once."""

from collections.abc import Container, Iterable, Iterator
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from agent_resolver.core.catalog_pattern import check_pattern
from agent_resolver.runtime.errors import InvalidSpec
from agent_resolver.runtime.spec import LOCAL, AgentSpec, ContextPolicy, RemoteEndpoint
from agent_resolver.schema.issue import Issue, IssueCode, Severity
from agent_resolver.schema.source import Unreadable
from agent_resolver.schema.toml_tree import tree_of
from agent_resolver.schema.tree import Item, Mapping, Node, find, plain
from agent_resolver.schema.vocabulary import Prose
from agent_resolver.schema.walker import walk

_OLD_FILTER: Final = "active_plugins"
_FILTER: Final = "active_hook_filter"
_POLICY: Final = "context_policy"
_STATED: Final = structs.fields(ContextPolicy)[:4]
"""What a context policy in a document must say; the rest of it has defaults there as well."""
Value = TypeVar("Value", bound=Struct)
_PROSE: Final = {"description", "system_prompt"}
_SHOWN: Final = 60
_DEFAULTS: Final = structs.asdict(AgentSpec(id=""))


class LocalConfig(Struct, frozen=True, kw_only=True):
    """What `backend.config` may say of an agent that runs here."""

    model_id: str | UnsetType = UNSET
    system_prompt: Prose | UnsetType = UNSET
    max_rounds: Annotated[int, Meta(ge=0)] | UnsetType = UNSET


def parse_spec(tree: Node) -> AgentSpec:
    """A spec from a document; a key that no reader knows is refused, with a hint at a known one.

    Raises:
        InvalidSpec: With every fault.
    """
    tree, faults = _with_new_name(tree)
    faults += refused(walk(tree, AgentSpec))
    document = plain(tree)
    if not isinstance(document, dict):
        raise InvalidSpec(faults)
    faults += (_locate_fault(tree, fault) for fault in _missing_policy_keys(document))
    # What is wrong with the one part says nothing about the others, and all of it is
    # told.
    wrong = {fault.at[0] for fault in faults if fault.at}
    # A spec cannot be made without an id; where that is missing, the fault is known
    # already.
    sound = {
        "id": "-",
        **{key: value for key, value in document.items() if key not in wrong},
    }
    spec = None
    try:
        spec = _check_parsed_spec(msgspec.convert(sound, AgentSpec), sound.keys())
    except InvalidSpec as error:
        faults += (_locate_fault(tree, fault) for fault in error.issues)
    if faults or spec is None:
        raise InvalidSpec(faults)
    return spec


def check_spec(spec: AgentSpec) -> AgentSpec:
    """A spec that was made in Python, if a document could say the same.

    Raises:
        InvalidSpec: With every fault.
    """
    # A prompt may say anything, with any characters, so it is not checked.
    texts = {"system_prompt": spec.system_prompt, "description": spec.description}
    spec = structs.replace(
        check_value(structs.replace(spec, system_prompt="", description=None)), **texts
    )
    # Python does not tell a default that was given from one that was not, so only other
    # values count as written.
    written = {
        name
        for name, value in structs.asdict(spec).items()
        if value != _DEFAULTS.get(name)
    }
    return _check_parsed_spec(spec, written)


def check_value(value: Value) -> Value:
    """A value that was made in Python, if a document could say the same: Python itself takes anything for a field.

    Raises:
        InvalidSpec: With every fault.
    """
    kind = type(value)
    try:
        tree = tree_of(msgspec.to_builtins(value, str_keys=True))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSpec([_spec_fault((), f"It is not JSON: {error}")]) from None
    except Unreadable as stop:
        raise InvalidSpec([stop.issue]) from None
    if faults := refused(walk(tree, kind)):
        raise InvalidSpec(faults)
    return msgspec.convert(plain(tree), kind)


def pattern_faults(spec: AgentSpec) -> Iterator[Issue]:
    """The faults of the patterns of a spec."""
    for field, place, pattern in spec.patterns():
        if fault := check_pattern(pattern):
            yield _spec_fault(
                (field, place), f"`{pattern[:_SHOWN]}` is not a pattern: {fault}"
            )


def refused(issues: Iterable[Issue]) -> list[Issue]:
    """The issues as faults: a key that no reader knows would silently have no effect, a hidden character one.

    Texts for models are their author's: nothing in them is a typing error.
    """
    faults = []
    for issue in issues:
        if issue.code is IssueCode.INVISIBLE_CHARACTER and _PROSE.intersection(
            issue.at
        ):
            continue
        message = (
            "Unknown key" if issue.code is IssueCode.UNKNOWN_KEY else issue.message
        )
        faults.append(structs.replace(issue, severity=Severity.ERROR, message=message))
    return faults


def _with_new_name(tree: Node) -> tuple[Node, list[Issue]]:
    """The document with the new name of a key that has an older one."""
    if not isinstance(tree, Mapping):
        return tree, []
    keys = {item.key for item in tree.items}
    if _OLD_FILTER not in keys:
        return tree, []
    if _FILTER in keys:
        message = f"Only one of {_OLD_FILTER} and {_FILTER} may be given"
        others = tuple(item for item in tree.items if item.key != _OLD_FILTER)
        fault = _spec_fault((_OLD_FILTER,), message)
        return structs.replace(tree, items=others), [fault]
    renamed = tuple(map(_with_new_key, tree.items))
    return structs.replace(tree, items=renamed), []


def _with_new_key(item: Item) -> Item:
    return structs.replace(item, key=_FILTER) if item.key == _OLD_FILTER else item


def _missing_policy_keys(document: dict[str, Any]) -> Iterator[Issue]:
    policy = document.get(_POLICY)
    if not isinstance(policy, dict):
        return
    for field in _STATED:
        if field.encode_name not in policy:
            yield Issue(
                at=(_POLICY, field.encode_name),
                code=IssueCode.REQUIRED,
                message="Required",
            )


def _check_parsed_spec(spec: AgentSpec, written: Container[str]) -> AgentSpec:
    canonical, faults = _apply_backend(spec, written)
    faults += [
        _spec_fault(("stop_conditions", place), fault)
        for place, condition in enumerate(spec.stop_conditions)
        if (fault := condition.fault())
    ]
    if faults := [*faults, *pattern_faults(spec)]:
        raise InvalidSpec(faults)
    return canonical


def _apply_backend(
    spec: AgentSpec, written: Container[str]
) -> tuple[AgentSpec, list[Issue]]:
    """The spec with what `backend` says of it; and where that is wrong, or says otherwise than the spec itself."""
    if spec.backend.kind != LOCAL or spec.endpoint:
        return _apply_remote_backend(spec)
    config = spec.backend.config
    if faults := [
        _in_config(issue) for issue in refused(walk(tree_of(config), LocalConfig))
    ]:
        return spec, faults
    faults = [
        _spec_fault((name,), f"{name} and backend.config.{name} differ")
        for name in structs.asdict(LocalConfig())
        if name in written and name in config and getattr(spec, name) != config[name]
    ]
    return structs.replace(spec, **config), faults


def _apply_remote_backend(spec: AgentSpec) -> tuple[AgentSpec, list[Issue]]:
    config, kind = spec.backend.config, spec.backend.kind
    endpoint = spec.endpoint
    if endpoint and kind not in {LOCAL, endpoint.backend}:
        return spec, [
            _spec_fault(("backend",), "backend.kind and endpoint.backend differ")
        ]
    if config:
        document = {"backend": endpoint.backend if endpoint else kind, **config}
        if faults := [
            _in_config(issue)
            for issue in refused(walk(tree_of(document), RemoteEndpoint))
        ]:
            return spec, faults
        said = msgspec.convert(document, RemoteEndpoint)
        # Without an endpoint, only the kind of backend can disagree with `config`.
        if said != (endpoint or structs.replace(said, backend=kind)):
            return spec, [
                _spec_fault(("endpoint",), "endpoint and backend.config differ")
            ]
        endpoint = said
    if endpoint is None:
        return spec, [_spec_fault(("endpoint",), f"Required by backend.kind {kind}")]
    backend = structs.replace(spec.backend, kind=endpoint.backend)
    return structs.replace(spec, endpoint=endpoint, backend=backend), []


def _locate_fault(tree: Node, fault: Issue) -> Issue:
    """A fault that was found in the spec, at its place in the document."""
    place = find(tree, fault.at)
    return structs.replace(fault, line=place.line, column=place.column)


def _in_config(issue: Issue) -> Issue:
    return issue.within("config").within("backend")


def _spec_fault(at: tuple[str | int, ...], message: str) -> Issue:
    return Issue(at=at, code=IssueCode.SYNTAX, message=message)
