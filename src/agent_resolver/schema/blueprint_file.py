"""Blueprints as files: read with the place of every fault, and written as canonical JSON."""

import msgspec
from msgspec import Struct, structs

from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.conflict import conflict_issue
from agent_resolver.schema.errors import InvalidBlueprint
from agent_resolver.schema.issue import Issue, IssueCode, Severity, only_errors
from agent_resolver.schema.limit import MAX_BLUEPRINT_BYTES
from agent_resolver.schema.portable_number import number_issues
from agent_resolver.schema.source import BYTE_ORDER_MARK, Unreadable, decode, unreadable
from agent_resolver.schema.tree import EMPTY, Node, plain


class BlueprintReading(Struct, frozen=True):
    """A blueprint as far as it could be read, with all that was found in it."""

    issues: tuple[Issue, ...]
    tree: Node
    blueprint: Blueprint | None
    """None when one of the issues is an error."""


def read_blueprint(raw: bytes, *, is_json: bool) -> BlueprintReading:
    """Read a blueprint to the end, whatever is wrong with it. A file is JSON or YAML 1.2."""
    from agent_resolver.schema.walker import walk

    try:
        tree = _parse_tree(raw, is_json=is_json)
    except Unreadable as stop:
        return BlueprintReading((conflict_issue(raw) or stop.issue,), EMPTY, None)
    walked = [_refuse_unknown_key(issue) for issue in walk(tree, Blueprint)]
    # The walker judges numbers where it expects them, and passes over values of any
    # type, such as those of mappings.
    judged = {issue.at for issue in walked}
    unjudged = [issue for issue in number_issues(tree) if issue.at not in judged]
    issues = tuple(
        sorted((*walked, *unjudged), key=lambda issue: (issue.line, issue.column))
    )
    blueprint = None if only_errors(issues) else msgspec.convert(plain(tree), Blueprint)
    return BlueprintReading(issues, tree, blueprint)


def parse_blueprint(raw: bytes, *, is_json: bool) -> BlueprintReading:
    """The content of a blueprint's file.

    Raises:
        InvalidBlueprint: With every error in the file.
    """
    reading = read_blueprint(raw, is_json=is_json)
    if reading.blueprint is None:
        raise InvalidBlueprint(only_errors(reading.issues))
    return reading


def encode_blueprint(blueprint: Blueprint) -> bytes:
    """The one spelling of a blueprint: compact JSON with sorted keys, without the values that are defaults.

    A key that a later version adds has a default, so that the bytes of the blueprints of today stay the same.
    """
    return msgspec.json.encode(blueprint, order="sorted")


def blueprint_bytes(blueprint: Blueprint) -> bytes:
    """The file that a task installs for a plan: the same bytes for the same blueprint."""
    return msgspec.json.format(encode_blueprint(blueprint), indent=2) + b"\n"


def blueprint_digest(blueprint: Blueprint) -> str:
    """The digest that a run, an approval and the manifest know a blueprint by."""
    return digest(blueprint)


def _parse_tree(raw: bytes, *, is_json: bool) -> Node:
    if len(raw) > MAX_BLUEPRINT_BYTES:
        message = f"Larger than the limit of {MAX_BLUEPRINT_BYTES:,} bytes"
        raise unreadable(IssueCode.LIMIT, message, hint="make two blueprints of it")
    text = decode(raw).removeprefix(BYTE_ORDER_MARK)
    if is_json:
        from agent_resolver.schema.json_tree import parse_json

        return parse_json(text)
    from agent_resolver.schema.yaml_tree import parse_yaml

    return parse_yaml(text)


def _refuse_unknown_key(issue: Issue) -> Issue:
    """A misspelt key, such as `compensaton`, would leave a run without what its author meant: an error here."""
    if issue.code is not IssueCode.UNKNOWN_KEY:
        return issue
    hint = issue.hint or "`agent schema blueprint` has every key"
    return structs.replace(
        issue, severity=Severity.ERROR, message="Unknown key", hint=hint
    )
