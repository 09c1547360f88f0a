"""Documents to specs: whatever is wrong is refused, all of it, with what was probably meant."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from agent_resolver.runtime import (
    AgentSpec,
    BackendSpec,
    Budget,
    ContextPolicy,
    DataFacts,
    EndpointAuth,
    InvalidSpec,
    ModelSpec,
    RemoteEndpoint,
    StopCondition,
    check_spec,
    check_value,
    parse_spec,
)
from agent_resolver.schema import Limits, parse_json
from tests.core.strategies import LAW

FULL = AgentSpec(
    id="a",
    description="Helps.\nA lot.",
    model_id="m",
    system_prompt="You help.\tAlways 👩‍💻.",
    max_rounds=3,
    max_continuation_retries=1,
    stop_conditions=(StopCondition(type="timeout", value=9), StopCondition(type="stop_on_tool", tool="done")),
    context_policy=ContextPolicy(autocompact_threshold=100, compaction_mode="compact_to_safe_frontier"),
    reasoning_effort=Budget(budget=100),
    plugin_ids=("x", "y"),
    active_hook_filter=("x",),
    allowed_tools=("t",),
    allowed_tool_patterns=None,
    excluded_tools=("u",),
    excluded_tool_patterns=("v*",),
    delegates=("b",),
    sections={"x": {"any": [1, None, {"thing": 0.5}]}},
    limits=Limits(residency="eu-only", sensitivity="pii.low", require_signed=True, forbid=("*",)),
    requires_lock=True,
    registry="here",
)
EFFORTS = "Invalid enum value. Expected 'high' | 'low' | 'max' | 'medium' | 'none'"
PLACES = "Invalid enum value. Expected 'any' | 'us-only' | 'eu-only'"
ENDPOINT = RemoteEndpoint(
    base_url="https://agents.example",
    auth=EndpointAuth(token_env="TOKEN"),
    target="x",
    timeout_ms=5,
    options={"poll_interval_ms": 1},
    data=DataFacts(residency=("any",), max_sensitivity="public"),
)


def parsed(document: Any) -> AgentSpec:
    return parse_spec(parse_json(msgspec.json.encode(document).decode()))


def faults(document: Any) -> list[str]:
    with pytest.raises(InvalidSpec) as caught:
        parsed(document)
    return [f"{issue}{f' ({issue.hint})' if issue.hint else ''}" for issue in caught.value.issues]


@pytest.mark.parametrize(
    "spec",
    [
        AgentSpec(id="a"),
        FULL,
        AgentSpec(id="a", reasoning_effort="max", backend=BackendSpec(version=2)),
        AgentSpec(id="a", endpoint=ENDPOINT, backend=BackendSpec(kind="a2a")),
    ],
)
def test_a_spec_is_the_same_after_a_document_of_it(spec: AgentSpec) -> None:
    assert parsed(spec) == spec
    assert check_spec(spec) == spec


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"modle_id": "m"}, ["modle_id: Unknown key (did you mean `model_id`?)"]),
        ({"nothing_like_it": 1}, ["nothing_like_it: Unknown key"]),
        ({"description": 1}, ['description: Expected string, received number (quote it: "1")']),
        ({"plugin_ids": "x"}, ["plugin_ids: Expected array, received string"]),
        ({"plugin_ids": [""]}, ["plugin_ids.0: String must contain at least 1 character(s)"]),
        ({"allowed_tools": "Read, Grep"}, ["allowed_tools: Expected array, received string"]),
        ({"active_plugins": 5}, ["active_hook_filter: Expected array, received number"]),
        (
            {"active_plugins": [], "active_hook_filter": []},
            ["active_plugins: Only one of active_plugins and active_hook_filter may be given"],
        ),
        ({"max_rounds": -1}, ["max_rounds: Must be 0 or more"]),
        ({"max_rounds": 1.5}, ["max_rounds: Expected integer, received float"]),
        (
            {"reasoning_effort": "maximum"},
            [f"reasoning_effort: {EFFORTS}, received 'maximum' (did you mean `medium`?)"],
        ),
        ({"reasoning_effort": {"budget": 0}}, ["reasoning_effort.budget: Must be 1 or more"]),
        (
            {"context_policy": {"max_context_token": 1}},
            [
                "context_policy.max_context_token: Unknown key (did you mean `max_context_tokens`?)",
                "context_policy.max_context_tokens: Required",
                "context_policy.max_output_tokens: Required",
                "context_policy.min_recent_messages: Required",
                "context_policy.enable_prompt_cache: Required",
            ],
        ),
        ({"context_policy": 1}, ["context_policy: Expected object, received number"]),
        ({"endpoint": {}}, ["endpoint.base_url: Required"]),
        (
            {"endpoint": {"base_url": "x", "auth": {"token": "secret"}}},
            ["endpoint.auth.token: Unknown key (did you mean `token_env`?)"],
        ),
        (
            {"endpoint": {"base_url": "x", "data": {"residency": ["eu"]}}},
            [f"endpoint.data.residency.0: {PLACES}, received 'eu'"],
        ),
        ({"stop_conditions": [{"type": "timeout"}]}, ["stop_conditions.0: timeout needs `value`"]),
        ({"excluded_tool_patterns": ["\\"]}, ["excluded_tool_patterns.0: `\\` is not a pattern: dangling escape"]),
        (
            {"allowed_tool_patterns": ["x" * 300]},
            [f"allowed_tool_patterns.0: `{'x' * 60}` is not a pattern: longer than 256 characters"],
        ),
        (
            {"excluded_tools": ["dele\u200bte"]},
            ["excluded_tools.0: Contains the invisible character U+200B (ZERO WIDTH SPACE) (remove it)"],
        ),
        ({"limits": {"residency": "eu"}}, [f"limits.residency: {PLACES}, received 'eu'"]),
        ({"backend": {"config": {"model": "m"}}}, ["backend.config.model: Unknown key (did you mean `model_id`?)"]),
        ({"backend": {"config": {"max_rounds": -1}}}, ["backend.config.max_rounds: Must be 0 or more"]),
        (
            {"model_id": "a", "backend": {"config": {"model_id": "b"}}},
            ["model_id: model_id and backend.config.model_id differ"],
        ),
        ({"backend": {"kind": "a2a"}}, ["endpoint: Required by backend.kind a2a"]),
        (
            {"backend": {"kind": "a2a", "config": {"url": "x"}}},
            ["backend.config.base_url: Required", "backend.config.url: Unknown key"],
        ),
        (
            {"backend": {"kind": "acp"}, "endpoint": {"base_url": "x"}},
            ["backend: backend.kind and endpoint.backend differ"],
        ),
        (
            {"backend": {"kind": "a2a", "config": {"base_url": "y"}}, "endpoint": {"base_url": "x"}},
            ["endpoint: endpoint and backend.config differ"],
        ),
        (
            {"backend": {"kind": "a2a", "config": {"base_url": "y", "backend": "acp"}}},
            ["endpoint: endpoint and backend.config differ"],
        ),
    ],
)
def test_every_fault_of_a_document_is_told(members: dict[str, Any], expected: list[str]) -> None:
    assert faults({"id": "a", **members}) == expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, ["id: Required"]),
        ([], ["(file): Expected object, received array"]),
        (None, ["(file): Expected object, received null"]),
        ({"id": ""}, ["id: String must contain at least 1 character(s)"]),
        (
            {"id": "a\nb", "x": 1, "max_rounds": "1"},
            [
                "id: Must not contain control characters, found U+000A",
                "x: Unknown key",
                "max_rounds: Expected number, received string",
            ],
        ),
    ],
)
def test_what_is_no_spec_at_all_is_told(document: Any, expected: list[str]) -> None:
    assert faults(document) == expected


def test_what_is_wrong_with_one_part_keeps_no_other_from_being_told() -> None:
    found = faults(
        {
            "id": 5,
            "modle_id": "m",
            "max_rounds": "1",
            "stop_conditions": [{"type": "timeout"}],
            "context_policy": {"max_context_tokens": 0},
            "excluded_tool_patterns": ["", "a*"],
            "backend": {"kind": "a2a"},
        }
    )

    assert [fault.partition(":")[0] for fault in found] == [
        "id",
        "modle_id",
        "max_rounds",
        "context_policy.max_context_tokens",
        "context_policy.max_output_tokens",
        "context_policy.min_recent_messages",
        "context_policy.enable_prompt_cache",
        "endpoint",
        "stop_conditions.0",
        "excluded_tool_patterns.0",
    ]


def test_a_key_given_twice_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="max_rounds: Duplicate key, first given on line 1"):
        parse_spec(parse_json('{"id": "a", "max_rounds": 1, "max_rounds": 100}'))


def test_what_the_backend_says_is_what_the_spec_says() -> None:
    local = parsed({"id": "a", "model_id": "m", "backend": {"config": {"model_id": "m", "system_prompt": "Help."}}})
    remote = parsed({"id": "a", "backend": {"kind": "a2a", "config": {"base_url": "https://x.example"}}})
    agreed = parsed({"id": "a", "backend": {"kind": "a2a"}, "endpoint": {"base_url": "https://x.example"}})

    assert (local.model_id, local.system_prompt, local.max_rounds) == ("m", "Help.", 16)
    assert remote.endpoint == agreed.endpoint == RemoteEndpoint(base_url="https://x.example")
    assert remote.is_remote
    assert parsed({"id": "a", "endpoint": {"base_url": "https://x.example"}}).backend.kind == "a2a"


def test_texts_for_models_may_hold_anything_but_control_characters() -> None:
    prompt = "Family: 👨\u200d👩\u200d👧, \u200fright to left\n\tdone"

    assert parsed({"id": "a", "system_prompt": prompt}).system_prompt == prompt
    assert faults({"id": "a", "system_prompt": "\x1b[31m"}) == [
        "system_prompt: Must not contain control characters, found U+001B"
    ]


# Made in Python -------------------------------------------------------------------------------------------------------


def python_faults(spec: AgentSpec) -> str:
    with pytest.raises(InvalidSpec) as caught:
        check_spec(spec)
    return str(caught.value)


def test_a_spec_made_in_python_is_held_to_the_same() -> None:
    circular: dict[str, Any] = {}
    circular["self"] = circular

    assert python_faults(AgentSpec(id="", max_rounds=-1)) == (
        "id: String must contain at least 1 character(s); max_rounds: Must be 0 or more"
    )
    assert python_faults(AgentSpec(id="a", plugin_ids="abc")) == (  # type: ignore[arg-type]
        "plugin_ids: Expected array, received string"
    )
    assert "It is not JSON" in python_faults(AgentSpec(id="a", sections={"x": object()}))
    assert "It is not JSON" in python_faults(AgentSpec(id="a", sections=circular))
    assert "A number has more than" in python_faults(AgentSpec(id="a", sections={"x": 10**300}))
    assert python_faults(AgentSpec(id="a", allowed_tool_patterns=("",))) == (
        "allowed_tool_patterns.0: `` is not a pattern: empty pattern"
    )
    assert python_faults(AgentSpec(id="a", model_id="m", backend=BackendSpec(config={"model_id": "n"}))) == (
        "model_id: model_id and backend.config.model_id differ"
    )
    assert python_faults(AgentSpec(id="a", backend=BackendSpec(kind="a2a"))) == "endpoint: Required by backend.kind a2a"


def test_a_spec_made_in_python_keeps_its_prompt_and_gets_its_types() -> None:
    lists: Any = {"plugin_ids": ["x"], "context_policy": {"max_context_tokens": 5}, "sections": {"x": (1, 2)}}

    spec = check_spec(AgentSpec(id="a", system_prompt="\x1b\u200b", description="\x07", **lists))

    assert (spec.system_prompt, spec.description) == ("\x1b\u200b", "\x07")
    assert spec.plugin_ids == ("x",)
    assert spec.context_policy == ContextPolicy(max_context_tokens=5)
    assert check_spec(AgentSpec(id="a", backend=BackendSpec(config={"max_rounds": 2}))).max_rounds == 2


def test_any_value_made_in_python_can_be_checked() -> None:
    model = ModelSpec(id="m", provider_id="p", upstream_model="u", input_price=float("inf"))

    with pytest.raises(InvalidSpec, match="input_price: Number out of range"):
        check_value(model)
    assert check_value(structs.replace(model, input_price=1)) == structs.replace(model, input_price=1.0)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


@LAW
@given(st.dictionaries(st.sampled_from([field.encode_name for field in structs.fields(AgentSpec)]), junk, max_size=4))
def test_a_document_gives_a_spec_or_faults_and_nothing_else(document: dict[str, Any]) -> None:
    """What the walker accepts decodes, whatever it is."""
    with suppress(InvalidSpec):
        spec = parsed(document)
        assert check_spec(spec) == spec
