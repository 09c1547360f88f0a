"""What permission rules say of calls: cases as data under `tests/scenarios/permission`, and laws."""

import fnmatch
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agent_resolver.core import (
    MAX_MATCHED,
    BadRule,
    Behavior,
    BehaviorRule,
    PermissionJudge,
    PermissionVerdict,
    compile_glob,
    is_about_any_arguments,
    parse_rule,
    rank_of,
)
from tests.core.strategies import LAW

SCENARIOS = Path(__file__).parents[1] / "scenarios" / "permission"
BEHAVIORS: tuple[Behavior, ...] = ("allow", "ask", "deny")


def compile_with_python(pattern: str) -> Callable[[str], bool]:
    found = re.compile(pattern).search
    return lambda text: found(text) is not None


def rule(text: str, behavior: Behavior) -> BehaviorRule:
    return BehaviorRule(text=text, calls=parse_rule(text), behavior=behavior)


def judge(*rules: BehaviorRule, default: Behavior = "ask") -> PermissionJudge:
    return PermissionJudge(rules, default, compile_with_python)


def cases(folder: str, key: str) -> list[Any]:
    found = [(path.stem, each) for path in sorted((SCENARIOS / folder).glob("*.toml")) for each in read(path)[key]]
    return [pytest.param(each, id=f"{stem} {number}") for number, (stem, each) in enumerate(found)]


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", cases("rule", "calls"))
@pytest.mark.parametrize("behavior", BEHAVIORS)
def test_a_rule_is_about_these_calls(case: dict[str, Any], behavior: Behavior) -> None:
    """Whatever the rule does, it is about the same calls."""
    text = case["rule"]
    if case.get("refused"):
        with pytest.raises(BadRule):
            parse_rule(text)
        return
    default: Behavior = "allow" if behavior == "ask" else "ask"
    tool = case.get("tool", text.partition("(")[0])
    verdict = judge(rule(text, behavior), default=default).verdict(tool, json.loads(case.get("arguments", "{}")))

    assert verdict == (PermissionVerdict(behavior, text) if case["matches"] else PermissionVerdict(default))


@pytest.mark.parametrize("case", cases("ranking", "verdicts"))
def test_of_the_rules_that_match_this_one_decides(case: dict[str, Any]) -> None:
    parsed = [each.partition(" ") for each in case["rules"]]
    rules = [rule(text, behavior) for behavior, _, text in parsed]
    verdict = judge(*rules, default=case.get("default", "ask")).verdict("Bash", {"command": "npm test"})

    assert verdict == PermissionVerdict(case["verdict"], case.get("by"))


def test_every_case_file_is_read() -> None:
    files = {path for path in SCENARIOS.rglob("*") if path.is_file()}

    assert files == {*SCENARIOS.glob("rule/*.toml"), *SCENARIOS.glob("ranking/*.toml")}


# What cannot be told --------------------------------------------------------------------------------------------------


LONG = "npm " + "x" * MAX_MATCHED
UNTOLD = [
    ("Bash(npm *)", {"command": LONG}),
    ("Bash(rm *)", {"command": LONG}),
    ('Bash(command ~ "rm *")', {"command": LONG, "n": 1}),
    ('Bash(command !~ "npm *")', {"command": LONG, "n": 1}),
    ('Bash(command =~ "rm")', {"command": LONG, "n": 1}),
    ('Bash(command !=~ "npm")', {"command": LONG, "n": 1}),
    ('Bash(command =~ "rm", n = "1")', {"command": LONG, "n": 1}),
    ('Bash(list[*] ~ "rm *")', {"list": ["a", LONG, "b"]}),
    ("Bash(rm *)", {"command": object()}),
    ('Bash(a ~ "rm *")', {"a": object()}),
]


@pytest.mark.parametrize(("text", "arguments"), UNTOLD, ids=range(len(UNTOLD)))
@pytest.mark.parametrize("behavior", BEHAVIORS)
def test_what_cannot_be_told_denies_and_asks_and_never_allows(
    text: str, arguments: dict[str, Any], behavior: Behavior
) -> None:
    default: Behavior = "deny" if behavior == "allow" else "allow"
    verdict = judge(rule(text, behavior), default=default).verdict("Bash", arguments)

    assert verdict.behavior == ("deny" if behavior == "allow" else behavior)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('Bash(command =~ "rm", n = "2")', {"command": LONG, "n": 1}),
        ('Bash(n = "2", command =~ "rm")', {"command": LONG, "n": 1}),
        ("Bash(rm)", {"command": LONG}),
    ],
)
def test_a_rule_that_fails_elsewhere_does_not_match_though_a_part_cannot_be_told(
    text: str, arguments: dict[str, Any]
) -> None:
    assert judge(rule(text, "deny")).verdict("Bash", arguments) == PermissionVerdict("ask")


def test_one_value_that_is_as_asked_is_enough_though_another_cannot_be_told() -> None:
    allowing = judge(rule('Bash(list[*] ~ "npm *")', "allow"))

    assert allowing.verdict("Bash", {"list": [LONG, "npm test"]}).behavior == "allow"


def test_a_long_text_is_told_where_no_pattern_is_applied_to_it() -> None:
    allowing = judge(rule("Bash(*)", "allow"), rule(f"Read({'x' * 900})", "allow"))

    assert allowing.verdict("Bash", {"command": LONG}).behavior == "allow"
    assert allowing.verdict("Read", {"path": "x" * 900}).behavior == "allow"


def test_an_engine_that_refuses_a_text_leaves_it_untold() -> None:
    def compile_refusing(_: str) -> Callable[[str], bool]:
        def refuse(text: str) -> bool:
            raise UnicodeEncodeError("utf-8", text, 0, 1, "surrogates not allowed")

        return refuse

    rules = [rule('Bash(command =~ "x")', "allow"), rule('Read(path =~ "x")', "deny")]
    refusing = PermissionJudge(rules, "ask", compile_refusing)

    assert refusing.verdict("Bash", {"command": "\ud800"}).behavior == "ask"
    assert refusing.verdict("Read", {"path": "\ud800"}).behavior == "deny"


def test_an_expression_needs_something_that_compiles_it() -> None:
    with pytest.raises(ValueError, match="nothing compiles"):
        PermissionJudge([rule("/x/", "deny")], "ask")
    assert PermissionJudge([rule("x*", "deny")], "ask").verdict("xy", {}).behavior == "deny"


def test_a_pattern_takes_no_time_that_grows_faster_than_its_text() -> None:
    """With a pattern as Python would translate it by itself, this would not end."""
    pattern = "*a" * 200 + "*b"
    slow = judge(rule(f"Bash({pattern})", "deny"))

    assert slow.verdict("Bash", {"command": "a" * 20_000}).behavior == "ask"


# Tools that are never shown -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "default", "denied"),
    [
        ([], "ask", ""),
        ([], "deny", "abc"),
        ([("a", "deny")], "ask", "a"),
        ([("a(*)", "deny")], "ask", "a"),
        ([("[ab]", "deny")], "ask", "ab"),
        ([("/[bc]/", "deny")], "allow", "bc"),
        ([("a(x *)", "deny")], "ask", ""),
        ([('a(x = "1")', "deny")], "ask", ""),
        ([("a", "deny"), ("a", "allow")], "ask", "a"),
        ([("a", "ask"), ("b(x *)", "allow")], "deny", "c"),
        ([("a(x *)", "deny")], "deny", "abc"),
    ],
)
def test_tools_that_are_denied_whatever_their_arguments_are(rules: Any, default: Behavior, denied: str) -> None:
    made = judge(*(rule(text, behavior) for text, behavior in rules), default=default)

    assert made.denied_tools("abc") == frozenset(denied)


# Laws -----------------------------------------------------------------------------------------------------------------

TOOLS = ("Bash", "Read", "B*", "*", "/a/", "/^R/")
PARTS = ("", "(*)", "(npm *)", "(npm test)", '(command = "npm test")', '(command =~ "n", cwd !~ "/*")', '(cwd != "a")')
rules_of = st.builds(
    lambda tool, part, behavior: rule(f"{tool}{part}", behavior),
    st.sampled_from(TOOLS),
    st.sampled_from(PARTS),
    st.sampled_from(BEHAVIORS),
)
calls = st.tuples(
    st.sampled_from(["Bash", "Read", "Other"]),
    st.dictionaries(st.sampled_from(["command", "cwd"]), st.sampled_from(["npm test", "npm x", "a", "/", LONG, 1])),
)


@LAW
@given(rules=st.lists(rules_of, max_size=6), call=calls, shuffle=st.randoms(use_true_random=False))
def test_the_order_of_rules_never_decides_what_happens(rules: list[BehaviorRule], call: Any, shuffle: Random) -> None:
    shuffled = list(rules)
    shuffle.shuffle(shuffled)
    one, other = judge(*rules).verdict(*call), judge(*shuffled).verdict(*call)

    assert one.behavior == other.behavior
    ranks = {each.text: rank_of(each) for each in rules if each.behavior == one.behavior}
    assert one.rule == other.rule or ranks[one.rule or ""] == ranks[other.rule or ""]


@LAW
@given(rules=st.lists(rules_of, max_size=6), call=calls, default=st.sampled_from(BEHAVIORS))
def test_all_rules_together_say_what_the_highest_of_them_says_alone(
    rules: list[BehaviorRule], call: Any, default: Behavior
) -> None:
    alone = [each for each in rules if judge(each).verdict(*call).rule is not None]
    highest = max((rank_of(each) for each in alone), default=None)
    expected = next((each for each in alone if rank_of(each) == highest), None)
    verdict = judge(*rules, default=default).verdict(*call)

    assert verdict == (PermissionVerdict(expected.behavior, expected.text) if expected else PermissionVerdict(default))


@LAW
@given(rules=st.lists(rules_of, max_size=6), call=calls, added=rules_of)
def test_a_deny_more_never_opens_anything(rules: list[BehaviorRule], call: Any, added: BehaviorRule) -> None:
    deny = rule(added.text, "deny")
    before, after = judge(*rules).verdict(*call), judge(*rules, deny).verdict(*call)

    assert after.behavior in {before.behavior, "deny"}
    if judge(deny).verdict(*call).behavior == "deny":
        assert after.behavior == "deny"


@LAW
@given(rules=st.lists(rules_of, max_size=6), call=calls, default=st.sampled_from(BEHAVIORS))
def test_no_call_of_a_tool_that_is_never_shown_is_allowed(
    rules: list[BehaviorRule], call: Any, default: Behavior
) -> None:
    made = judge(*rules, default=default)
    denied = made.denied_tools(["Bash", "Read", "Other"])

    assert call[0] not in denied or made.verdict(*call).behavior == "deny"


@LAW
@given(
    pattern=st.text(alphabet="ab*?[]!-^\\.", max_size=8).filter(lambda text: "\\" not in text),
    text=st.text(alphabet="ab]!-^.\n", max_size=8),
)
def test_a_pattern_fits_what_a_shell_pattern_fits(pattern: str, text: str) -> None:
    """Escapes aside, which shell patterns of Python do not have; their `^` is a character."""
    try:
        match = parse_rule(f"T({pattern})").main_argument
    except BadRule:
        return
    if match is None or match.kind != "glob":
        return
    as_in_shells = pattern.replace("[^", "[!")

    assert (compile_glob(pattern).fullmatch(text) is not None) == fnmatch.fnmatchcase(text, as_in_shells)


def test_the_judge_remembers_no_more_tools_than_it_needs() -> None:
    made = judge(rule("t*", "deny"))
    for number in range(3000):
        assert made.verdict(f"t{number}", {}).behavior == "deny"

    assert len(made._known) <= 1024
    assert is_about_any_arguments(parse_rule("t*"))


def test_a_tool_is_judged_the_same_each_time() -> None:
    made = judge(rule("read", "allow"))

    assert [made.verdict("read", {}).behavior for _ in range(2)] == ["allow", "allow"]
