"""What is declared of a capability."""

import re
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct

from agent_resolver.capability.naming import domain_of, unsafe_name
from agent_resolver.capability.unsafe import Unsafe, UnsafeCode
from agent_resolver.schema.classification import Classification
from agent_resolver.schema.descriptor import Descriptor, Labels, Rules
from agent_resolver.schema.pending import Priority

_MAX_DESCRIPTION: Final = 4000
_MAX_WORDS: Final = 100
_WORD: Final = re.compile(r"[!-~]{1,200}")
_SECRET: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class Declaration(Struct, frozen=True, kw_only=True):
    """What `@capability` was given; what it leaves open is filled in."""

    id: str
    examples: tuple[Any, ...]
    classification: Classification
    scopes: Sequence[str]
    idempotent: bool
    read_only: bool
    secrets: Sequence[str]
    domain: str | None
    subdomain: str
    tags: Sequence[str]
    maintainer: str
    allow_outbound: bool
    cost_factor: float | None
    approval: bool
    approver_role: str
    priority: Priority
    timeout_seconds: float
    rate_limit_per_minute: float | None
    isolated: bool
    description: str | None


def descriptor_of(
    declared: Declaration, description: str, input_schema: dict[str, Any], output_schema: dict[str, Any], source: str
) -> Descriptor:
    """The tool that a declaration makes."""
    domain = domain_of(declared.id)
    return Descriptor(
        id=declared.id,
        description=description.strip(),
        input_schema=input_schema,
        output_schema=output_schema,
        source=source,
        rate_limit_per_minute=declared.rate_limit_per_minute,
        timeout_seconds=declared.timeout_seconds,
        hints=_hints(declared),
        rules=Rules(
            required_scopes=_once(declared.scopes),
            classification=declared.classification,
            needs_approval=declared.approval,
            approver_role=declared.approver_role,
            priority=declared.priority,
            is_idempotent=declared.idempotent,
            secrets=_once(declared.secrets),
            is_isolated=declared.isolated,
        ),
        labels=Labels(
            kind="CAPABILITY",
            domain=domain,
            subdomain=declared.subdomain,
            tags=_once((domain, *declared.tags)),
            maintainer=declared.maintainer,
            allow_outbound=declared.allow_outbound,
            cost_factor=declared.cost_factor,
            # As JSON says them: whoever wrote them may hold on to them.
            examples=tuple(msgspec.json.decode(msgspec.json.encode(declared.examples))),
        ),
    )


def unsafe_declaration(declared: Declaration, description: str) -> Iterator[Unsafe]:
    """Every fault of a declaration, the types aside."""
    yield from unsafe_name(declared.id, declared.domain)
    if not description.strip():
        message = "nothing says what it does: give it a docstring, or a `description`"
        yield Unsafe(at=("description",), code=UnsafeCode.MISSING_DESCRIPTION, message=message)
    if len(description) > _MAX_DESCRIPTION:
        message = f"it has {len(description)} characters, and {_MAX_DESCRIPTION} is the most: make it shorter"
        yield Unsafe(at=("description",), code=UnsafeCode.TOO_LARGE, message=message)
    if not declared.examples:
        message = "nothing shows how it is called: give whole arguments, once at least"
        yield Unsafe(at=("examples",), code=UnsafeCode.MISSING_EXAMPLES, message=message)
    if declared.classification == "RESTRICTED" and not declared.approval:
        message = "what is RESTRICTED takes an approval: leave `approval` out, or lower the classification"
        yield Unsafe(at=("approval",), code=UnsafeCode.UNAPPROVED_RESTRICTED, message=message)
    for name, message in _bad_settings(declared):
        yield Unsafe(at=(name,), code=UnsafeCode.BAD_SETTING, message=message)


def _bad_settings(declared: Declaration) -> Iterator[tuple[str, str]]:
    for name, value, known in (
        ("classification", declared.classification, get_args(Classification)),
        ("priority", declared.priority, get_args(Priority)),
    ):
        if value not in known:
            yield name, f"it is not known: choose one of {', '.join(known)}"
    if not _is_over(declared.timeout_seconds, 0):
        yield "timeout_seconds", "it is no number of seconds: give one above 0"
    if declared.rate_limit_per_minute is not None and not _is_over(declared.rate_limit_per_minute, 0):
        yield "rate_limit_per_minute", "it is no number above 0: leave it out for no limit"
    if declared.cost_factor is not None and not _is_over(declared.cost_factor, -1e-9):
        yield "cost_factor", "it is no number from 0 on: leave it out where none is known"
    for name, words, form in (
        ("scopes", declared.scopes, _WORD),
        ("tags", declared.tags, _WORD),
        ("secrets", declared.secrets, _SECRET),
        ("approver_role", [declared.approver_role], _WORD),
    ):
        if isinstance(words, str):
            yield name, "it is one word: give a list of words"
        elif len(words) > _MAX_WORDS or not all(form.fullmatch(str(word)) for word in words):
            yield (
                name,
                f"it is no list of up to {_MAX_WORDS} words such as `{'API_TOKEN' if form is _SECRET else 'read'}`",
            )


def _is_over(value: Any, bound: float) -> bool:  # noqa: ANN401 - whatever somebody wrote
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value > bound


def _hints(declared: Declaration) -> dict[str, bool]:
    """What MCP's annotations may say of it: what was not declared is not promised."""
    said = {
        # Nobody declares that what it changes can be had back.
        "destructiveHint": not declared.read_only,
        "idempotentHint": declared.idempotent,
        "openWorldHint": declared.allow_outbound,
    }
    return {"readOnlyHint": True, **said} if declared.read_only else said


def _once(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))
