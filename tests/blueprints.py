"""Blueprints for tests: one example in YAML with the tools it uses, and arbitrary documents for properties."""

from typing import Any

from hypothesis import strategies as st

from agent_resolver.schema import Descriptor, Labels, Rules

REFUND = """\
blueprint_metadata:
  id: tickets.refund
  version: 1.2.0
  description: Refunds the order of a ticket, after a person has agreed
  maintainer: support
  cost_center: CC-42
  tags: [tickets, money]
dag:
  input_schema:
    type: object
    properties:
      ticket: {type: integer, minimum: 1}
      reason: {type: string}
    required: [ticket]
    additionalProperties: false
  output_schema:
    type: object
    properties: {refund: {type: string}}
    required: [refund]
  steps:
    - id: find
      capability: tickets.find
      input_mapping: {ticket: "${input.ticket}"}
    - id: agree
      wait: {kind: person, question: "Refund ticket ${input.ticket}?"}
    - id: refund
      capability: payments.refund
      condition: steps.agree == 'yes'
      input_mapping: {order: "${steps.find.order}", note: "Ticket ${input.ticket}"}
      compensation:
        capability: payments.charge
        input_mapping: {refund: "${result.refund}"}
      retry: {max_attempts: 3}
    - id: mail
      capability: tickets.mail
      is_parallel: true
      for_each: {items: "${steps.find.watchers}"}
      input_mapping: {to: "${item}"}
    - id: close
      capability: tickets.close
      is_parallel: true
      input_mapping: {ticket: "${input.ticket}"}
  output_mapping: {refund: "${steps.refund.refund ?? 'none'}"}
hitl_requirements:
  - {step: refund, reason: It moves money}
security_logic:
  data_classification: CONFIDENTIAL
  required_scopes: [tickets.write]
acceptance_tests:
  - name: a refund
    input: {ticket: 7}
    results: {refund: {refund: r-1}}
    output: {refund: r-1}
temporal_tuning:
  max_parallel: 10
"""


def tool(id: str, takes: dict[str, Any], gives: dict[str, Any] | None = None, **rules: Any) -> Descriptor:  # noqa: A002
    """A tool that takes exactly these arguments, and does nothing that a second call would do again."""
    return Descriptor(
        id=id,
        description=id,
        input_schema={"type": "object", "properties": takes, "required": [*takes], "additionalProperties": False},
        output_schema=gives,
        source="module tickets",
        rules=Rules(**{"is_idempotent": True, **rules}),
        labels=Labels(kind="CAPABILITY"),
    )


def gives(**members: Any) -> dict[str, Any]:
    """The schema of an object that has all of these members."""
    return {"type": "object", "properties": members, "required": [*members], "additionalProperties": False}


TEXT = {"type": "string"}
WHOLE = {"type": "integer"}

TOOLS = {
    each.id: each
    for each in (
        tool("tickets.find", {"ticket": WHOLE}, gives(order=TEXT, watchers={"type": "array", "items": TEXT})),
        tool("payments.refund", {"order": TEXT, "note": TEXT}, gives(refund=TEXT), is_idempotent=False),
        tool("payments.charge", {"refund": TEXT}, gives(charged=TEXT)),
        tool("tickets.mail", {"to": TEXT}),
        tool("tickets.close", {"ticket": WHOLE}, gives(closed={"type": "boolean"})),
    )
}


# Arbitrary documents --------------------------------------------------------------------------------------------------

_TOOLS = st.text("abXY01._-", min_size=1, max_size=6)
_NAMES = st.text("abcxyz01. é😀", min_size=1, max_size=6)
_IDS = st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True)
_NUMBERS = st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=2),
    max_leaves=4,
)
_MAPPINGS = st.dictionaries(_NAMES, JSON_VALUES, max_size=2)
_SECONDS = st.floats(0.5, 60.0) | st.integers(1, 60)


def _objects(required: dict[str, st.SearchStrategy[Any]], **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(required, optional=optional)


def _lists(values: st.SearchStrategy[Any], *, least: int = 0) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, min_size=least, max_size=2)


_RETRIES = _objects(
    {},
    max_attempts=st.integers(1, 10),
    first_delay_seconds=_SECONDS,
    backoff=st.floats(1, 10),
    max_delay_seconds=_SECONDS,
)
_COMPENSATIONS = _objects({"capability": _NAMES}, input_mapping=_MAPPINGS, retry=_RETRIES)
_ENDS = {"timeout_seconds": _SECONDS, "default": JSON_VALUES, "role": _NAMES}
_WAITS = st.one_of(
    _objects({"kind": st.just("person"), "question": _NAMES}, **_ENDS),
    _objects({"kind": st.just("signal"), "signal": _NAMES}, schema=_MAPPINGS, **_ENDS),
    _objects({"kind": st.just("time"), "seconds": _SECONDS}),
    _objects({"kind": st.just("time"), "until": _NAMES}),
)
_FAN_OUTS = _objects({"items": _NAMES}, max_items=st.integers(1, 100), batch_size=st.integers(1, 100))
_COMMON = {
    "is_parallel": st.booleans(),
    "after": _lists(_IDS),
    "condition": _NAMES | st.just(""),
    "for_each": _FAN_OUTS,
    "compensation": _COMPENSATIONS,
    "retry": _RETRIES,
    "timeout_seconds": _SECONDS,
    "input_mapping": _MAPPINGS,
}
_STEPS = _objects({"id": _IDS, "capability": _NAMES}, **_COMMON) | _objects({"id": _IDS, "wait": _WAITS}, **_COMMON)


def blueprint_documents() -> st.SearchStrategy[Any]:
    """Documents that follow the schema of a blueprint, whatever their expressions and references say."""
    return _objects(
        {
            "blueprint_metadata": _objects(
                {"id": _TOOLS, "version": _NAMES, "description": _NAMES},
                maintainer=_NAMES,
                cost_center=_NAMES,
                tags=_lists(_NAMES),
            ),
            "dag": _objects(
                {"steps": _lists(_STEPS, least=1)},
                input_schema=_MAPPINGS,
                output_schema=_MAPPINGS,
                output_mapping=JSON_VALUES,
            ),
        },
        acceptance_tests=_lists(
            _objects(
                {"name": _NAMES},
                input=_MAPPINGS,
                results=st.dictionaries(_IDS, JSON_VALUES, max_size=2),
                output=JSON_VALUES,
            )
        ),
        hitl_requirements=_lists(_objects({"step": _IDS, "reason": _NAMES})),
        security_logic=_objects(
            {},
            data_classification=st.sampled_from(["PUBLIC", "RESTRICTED"]),
            required_scopes=_lists(_NAMES),
            forbid=_lists(_NAMES),
            allow_outbound=st.booleans(),
        ),
        temporal_tuning=_objects({}, retry=_RETRIES, step_timeout_seconds=_SECONDS, max_parallel=st.integers(1, 100)),
    )
