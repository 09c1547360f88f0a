"""The certificate of a project's tools: a fixed list of checks, each with its findings."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal

from msgspec import UNSET, Struct, UnsetType

from agent_resolver.capability.field_description import lacking_notes
from agent_resolver.capability.function import Capability
from agent_resolver.capability.tool_schema import (
    faults_of_example,
    meta_fault,
    unsafe_schema,
)
from agent_resolver.capability.type_adapter import Typed
from agent_resolver.capability.unsafe import Unsafe, UnsafeCode
from agent_resolver.core.manifest_diff import manifest_difference
from agent_resolver.core.schema_document import Document, bare, token
from agent_resolver.registry.compiled_schema import compile_schema
from agent_resolver.registry.errors import ToolIdConflict
from agent_resolver.registry.manifest import is_own, manifest_of
from agent_resolver.registry.tool import Tool
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.errors import InvalidManifest
from agent_resolver.schema.lockfile import to_json
from agent_resolver.schema.manifest import Manifest, parse_manifest

_VALUE_CODES: Final = frozenset(
    {UnsafeCode.INVALID_DEFAULT, UnsafeCode.INVALID_EXAMPLE}
)


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One reason why a tool does not pass a check."""

    tool: str
    code: str = ""
    """The code of the fault, where it has one."""
    path: str = ""
    """Its place in the input, the output or the examples."""
    message: str

    def __str__(self) -> str:
        return ": ".join(word for word in (self.tool, self.path, self.message) if word)


class Check(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One check of all tools."""

    name: str
    status: Literal["failed", "passed", "skipped"]
    note: str = ""
    """The reason why it was skipped, or the tools that it did not cover."""
    findings: tuple[Finding, ...]


class Certificate(Struct, frozen=True, kw_only=True):
    """The result of all checks."""

    version: str = "1"
    success: bool
    digest: str | UnsetType = UNSET
    """The digest of the manifest that was certified; absent where no manifest can be made."""
    tools: int
    checks: tuple[Check, ...]


def certify(tools: Iterable[Tool], committed: Manifest | None) -> Certificate:
    """Check the tools of a project's own code.

    1. No two have one id.
    2. Every schema is one of 2020-12 and refers to nothing outside of itself, and the manifest can be read back.
    3. Every field is described, and every field that a caller gives has an example.
    4. Examples and defaults follow their schemas.
    5. Whole examples become values of the function's types, and the same JSON again.
    6. The tools are those of the committed manifest.
    """
    subjects = [_Subject(tool) for tool in tools if is_own(tool.descriptor)]
    manifest = _manifest_or_none([subject.descriptor for subject in subjects])
    checks = (
        _make_check(
            "unique-ids", _duplicate_ids([subject.descriptor for subject in subjects])
        ),
        _make_check(
            "schemas-parse",
            [
                *_findings_in(subjects, _Subject.unparsable),
                *_unreadable_in_manifest(manifest),
            ],
        ),
        _make_check("fields-described", _findings_in(subjects, _Subject.undescribed)),
        _make_check(
            "examples-validate", _findings_in(subjects, _Subject.invalid_examples)
        ),
        _check_round_trip(subjects),
        _check_drift(committed, manifest),
    )
    success = all(check.status != "failed" for check in checks)
    digest = manifest.digest if manifest else UNSET
    return Certificate(
        success=success, digest=digest, tools=len(subjects), checks=checks
    )


def refused(findings: Iterable[Finding]) -> Certificate:
    """The certificate of a project whose tools cannot be loaded."""
    return Certificate(
        success=False, tools=0, checks=(_make_check("tools-load", findings),)
    )


class _Subject:
    """A tool, and the faults of its schemas."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.descriptor = tool.descriptor
        output = self.descriptor.output_schema
        schemas = {
            "input": self.descriptor.input_schema,
            **({} if output is None else {"output": output}),
        }
        self._unsafe = {
            side: list(_unsafe_in_schema(schema, side))
            for side, schema in schemas.items()
        }
        # A wrong default or example leaves a schema that values can be checked against.
        self._usable = {
            side: schema
            for side, schema in schemas.items()
            if all(each.code in _VALUE_CODES for each in self._unsafe[side])
        }

    def unparsable(self) -> Iterator[Finding]:
        for side, found in self._unsafe.items():
            yield from (
                self._finding(side, each.message, each.code)
                for each in found
                if each.code not in _VALUE_CODES
            )

    def undescribed(self) -> Iterator[Finding]:
        if not self.descriptor.description.strip():
            yield self._finding("", "it has no description")
        for side, schema in self._usable.items():
            for path, message in lacking_notes(schema, needs_examples=side == "input"):
                yield self._finding(f"{side} {path}", message)

    def invalid_examples(self) -> Iterator[Finding]:
        examples = self.descriptor.labels.examples
        if not examples:
            yield self._finding("", "it has no examples of whole arguments")
        for found in self._unsafe.values():
            yield from (
                self._finding(each.path, each.message, each.code)
                for each in found
                if each.code in _VALUE_CODES
            )
        if "input" in self._usable:
            shape = compile_schema(self._usable["input"])
            for position, example in enumerate(examples):
                for fault in faults_of_example(shape, example):
                    yield self._finding(f"examples.{position}", fault)

    def changed_examples(self) -> Iterator[Finding]:
        """Examples of a capability that do not come back when they are read and written."""
        # A blueprint has no types in Python that its examples could become.
        if not isinstance(self.tool, Capability):
            return
        for position, example in enumerate(self.descriptor.labels.examples):
            if message := _round_trip_fault(self.tool.request_type, example):
                yield self._finding(f"examples.{position}", message)

    def _finding(self, path: str, message: str, code: str = "") -> Finding:
        return Finding(tool=self.descriptor.id, code=code, path=path, message=message)


def _unsafe_in_schema(schema: dict[str, Any], side: str) -> Iterator[Unsafe]:
    if fault := _reason_unusable(schema):
        yield Unsafe(at=(side,), code=UnsafeCode.INVALID_SCHEMA, message=fault)
    else:
        yield from unsafe_schema(_without_boolean_schemas(schema), (side,))


def _reason_unusable(schema: dict[str, Any]) -> str | None:
    """The reason why no value can be checked against a schema; None if values can."""
    if fault := meta_fault(schema):
        return f"its schema is none of 2020-12: {fault}"
    # The meta-schema allows any keyword, also one that would be passed over in silence.
    if keyword := Document(bare(schema)).fault:
        return f"`{keyword}` in its schema cannot be followed, or is of another dialect than 2020-12"
    try:
        compile_schema(schema)
    except ValueError as error:
        return f"its schema cannot be used: {str(error).partition(chr(10))[0]}"
    return None


def _without_boolean_schemas(schema: Any) -> Any:  # noqa: ANN401 - a schema
    """The schema with objects in place of `true` and `false`, wherever fields and alternatives are searched."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    node = dict(schema)
    for key in node.keys() & {"$defs", "properties"}:
        node[key] = {
            name: _without_boolean_schemas(each) for name, each in node[key].items()
        }
    for key in node.keys() & {"anyOf", "oneOf", "prefixItems"}:
        node[key] = list(map(_without_boolean_schemas, node[key]))
    for key in node.keys() & {"additionalProperties", "items"}:
        node[key] = (
            node[key]
            if isinstance(node[key], bool)
            else _without_boolean_schemas(node[key])
        )
    return node


def _findings_in(
    subjects: Sequence[_Subject], look: Callable[[_Subject], Iterator[Finding]]
) -> Iterator[Finding]:
    return (finding for subject in subjects for finding in look(subject))


def _make_check(name: str, findings: Iterable[Finding], note: str = "") -> Check:
    found = tuple(
        sorted(findings, key=lambda each: (each.tool, each.path, each.message))
    )
    return Check(
        name=name, status="failed" if found else "passed", note=note, findings=found
    )


def _manifest_or_none(descriptors: Sequence[Descriptor]) -> Manifest | None:
    try:
        return manifest_of(descriptors)
    except ToolIdConflict:
        return None


def _duplicate_ids(descriptors: Sequence[Descriptor]) -> Iterator[Finding]:
    counts = Counter(descriptor.id for descriptor in descriptors)
    for tool in (tool for tool, count in counts.items() if count > 1):
        sources = sorted(
            descriptor.source for descriptor in descriptors if descriptor.id == tool
        )
        yield Finding(tool=tool, message=f"registered by {' and '.join(sources)}")


def _unreadable_in_manifest(manifest: Manifest | None) -> Iterator[Finding]:
    """Values that make the manifest unreadable: every program that reads it would refuse it."""
    if manifest is None:
        return
    try:
        parse_manifest(to_json(manifest))
    except InvalidManifest as error:
        for issue in error.issues:
            position = next((step for step in issue.at if isinstance(step, int)), None)
            tool = "" if position is None else manifest.tools[position].id
            yield Finding(
                tool=tool, code=issue.code, path=issue.path, message=issue.message
            )


def _check_round_trip(subjects: Sequence[_Subject]) -> Check:
    untyped = sorted(
        subject.descriptor.id
        for subject in subjects
        if not isinstance(subject.tool, Capability)
    )
    found = _findings_in(subjects, _Subject.changed_examples)
    return _make_check(
        "examples-round-trip",
        found,
        f"only validated: {', '.join(untyped)}" if untyped else "",
    )


def _round_trip_fault(request: Typed, example: Any) -> str | None:  # noqa: ANN401 - a JSON value
    try:
        again = request.encode(request.decode(example))
    except (TypeError, ValueError, RecursionError) as error:
        return f"it becomes no value: {error}"
    return (
        None
        if _is_restored(again, example)
        else "it comes back as something else: write it as it comes back"
    )


def _is_restored(again: Any, example: Any) -> bool:  # noqa: ANN401 - JSON values
    """True if the value that came back holds the example; it may have defaults besides, and sets in another order."""
    if isinstance(example, dict) and isinstance(again, dict):
        return all(
            key in again and _is_restored(again[key], value)
            for key, value in example.items()
        )
    if (
        isinstance(example, list | tuple)
        and isinstance(again, list | tuple)
        and len(example) == len(again)
    ):
        pairs = zip(again, example, strict=True)
        if all(_is_restored(*pair) for pair in pairs):
            return True
        # A set comes back in another order.
        return sorted(map(token, again)) == sorted(map(token, example))
    return token(again) == token(example)


def _check_drift(committed: Manifest | None, current: Manifest | None) -> Check:
    if committed is None or current is None:
        note = (
            "no manifest is committed" if committed is None else "two tools have one id"
        )
        return Check(name="drift", status="skipped", note=note, findings=())
    found = [
        Finding(
            tool=each.tool,
            code=each.kind,
            message=str(each).removeprefix(f"{each.tool}: "),
        )
        for each in manifest_difference(committed, current)
    ]
    return _make_check("drift", found)
