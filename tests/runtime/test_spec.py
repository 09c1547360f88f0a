"""The agent spec: what people are shown of it, what it allows, and what is wrong with its parts."""

import pytest

from agent_resolver.runtime import AgentSpec, EndpointAuth, RemoteEndpoint, StopCondition


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (AgentSpec(id="a", description="Helps.", system_prompt="You help."), "Helps."),
        (AgentSpec(id="a", system_prompt="\n  \n  You help.  \nMore."), "You help."),
        (AgentSpec(id="a", system_prompt="x" * 101), "x" * 100),
        (AgentSpec(id="a", description="", system_prompt=" \n"), "a"),
        (AgentSpec(id="a"), "a"),
    ],
)
def test_people_see_the_description_or_the_first_prompt_line_or_the_id(spec: AgentSpec, expected: str) -> None:
    assert spec.display == expected


def test_the_defaults_are_sixteen_rounds_and_two_continuations() -> None:
    spec = AgentSpec(id="a")

    assert (spec.max_rounds, spec.max_continuation_retries) == (16, 2)
    assert (spec.backend.kind, spec.backend.version, spec.is_remote) == ("local", 1, False)
    assert spec.sections == {}
    assert spec.sections is not AgentSpec(id="b").sections


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (AgentSpec(id="a"), ("*",)),
        (AgentSpec(id="a", allowed_tools=("x",)), ()),
        (AgentSpec(id="a", allowed_tools=None), ()),
        (AgentSpec(id="a", allowed_tools=()), ()),
        (AgentSpec(id="a", allowed_tool_patterns=None), ()),
        (AgentSpec(id="a", allowed_tool_patterns=("a*",)), ("a*",)),
        (AgentSpec(id="a", allowed_tools=None, allowed_tool_patterns=("a*",)), ("a*",)),
    ],
)
def test_only_what_is_not_written_at_all_allows_every_tool(spec: AgentSpec, expected: tuple[str, ...]) -> None:
    assert spec.allowed_patterns == expected


@pytest.mark.parametrize(
    "url",
    [
        "https://agents.example",
        "http://localhost:8080/a",
        "https://[::1]/a/b",
        "https://é.example",
        "HTTPS://agents.example/",
    ],
)
def test_an_endpoint_may_be_any_web_address(url: str) -> None:
    assert RemoteEndpoint(base_url=url).fault() is None
    assert RemoteEndpoint(base_url=url, auth=EndpointAuth(token_env="TOKEN")).fault() is None


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("", "base_url must not be empty"),
        ("\n", "base_url must not be empty"),
        ("agents.example", "base_url must be an http(s) URL with a host"),
        ("file:///etc/passwd", "base_url must be an http(s) URL with a host"),
        ("https://", "base_url must be an http(s) URL with a host"),
        ("https:///path", "base_url must be an http(s) URL with a host"),
        ("https://[::1", "base_url must be an http(s) URL with a host"),
        ("https://agents.example:99999", "base_url must be an http(s) URL with a host"),
        ("https://agents.example:0", "base_url must be an http(s) URL with a host"),
        ("https://agents.example/a b", "base_url must be an http(s) URL with a host"),
        ("https://agents.exa\nmple", "base_url must be an http(s) URL with a host"),
        ("https://agents.example?", "base_url must not have credentials, a query or a fragment"),
        ("https://agents.example/#a", "base_url must not have credentials, a query or a fragment"),
        ("https://me:secret@agents.example", "base_url must not have credentials, a query or a fragment"),
        ("https://@agents.example", "base_url must not have credentials, a query or a fragment"),
    ],
)
def test_what_is_no_place_for_an_endpoint_is_told(url: str, fault: str) -> None:
    assert RemoteEndpoint(base_url=url).fault() == fault


@pytest.mark.parametrize(
    ("condition", "fault"),
    [
        (StopCondition(type="max_rounds", value=0), None),
        (StopCondition(type="timeout", value=24 * 60 * 60), None),
        (StopCondition(type="timeout", value=24 * 60 * 60 + 1), "value of timeout must be from 1 to 86400"),
        (StopCondition(type="token_budget", value=100_000_000), None),
        (StopCondition(type="token_budget", value=0), "value of token_budget must be from 1 to 100000000"),
        (StopCondition(type="consecutive_errors"), "consecutive_errors needs `value`"),
        (StopCondition(type="loop_detection", value=1), "value of loop_detection must be from 2 to 64"),
        (StopCondition(type="stop_on_tool", tool="done"), None),
        (StopCondition(type="stop_on_tool", value=1), "stop_on_tool needs `tool`"),
        (StopCondition(type="stop_on_tool", tool="done", value=0), "stop_on_tool takes no `value`"),
        # Whether it is a regular expression at all shows in the run, which then ends with a reason of its own.
        (StopCondition(type="content_match", pattern="("), None),
        (StopCondition(type="content_match", pattern="x" * 1025), "pattern must have at most 1024 characters"),
        (StopCondition(type="content_match", tool="x", pattern="x"), "content_match takes no `tool`"),
    ],
)
def test_a_stop_condition_has_what_its_type_needs(condition: StopCondition, fault: str | None) -> None:
    assert condition.fault() == fault
