"""The check of blueprints: every fault at once, each with its place, its code and what to do."""

from typing import Any

import pytest
from msgspec import structs

from agent_resolver.core import (
    AdmissionCode,
    BlueprintLimits,
    Refused,
    blueprint_rules,
    check_blueprint,
    located_findings,
)
from agent_resolver.schema import Blueprint, Descriptor, Labels, parse_blueprint
from tests.blueprints import REFUND, TEXT, TOOLS, WHOLE, gives, tool
from tests.schema.sample import shown

PROJECT = {
    each.id: each
    for each in (
        tool("read", {}, gives(text=TEXT, maybe={"type": ["string", "null"]}, count=WHOLE)),
        tool("list", {}, {"type": "array", "items": gives(name=TEXT)}),
        tool("say", {"text": TEXT}),
        tool("count", {"to": {"type": "integer", "minimum": 1, "maximum": 9}}, WHOLE),
        tool("pay", {"text": TEXT}, gives(id=TEXT), is_idempotent=False),
        tool("unpay", {"id": TEXT}),
        tool("burn", {"id": TEXT}, is_idempotent=False),
        tool("secret", {}, classification="RESTRICTED", required_scopes=("vault.read",), secret_fields=("pin",)),
        tool("loose", {}),
    )
}
PROJECT["loose"] = structs.replace(PROJECT["loose"], input_schema={"type": "object"}, output_schema={"type": "object"})
PROJECT["look"] = structs.replace(PROJECT["pay"], id="look", hints={"readOnlyHint": True})


def blueprint_of(steps: str, dag: str = "", top: str = "") -> str:
    """A blueprint with these steps, one a line, and with more keys of `dag` and at the top, one a line."""
    more = "".join(f"  {line}\n" for line in dag.splitlines())
    listed = "".join(f"    - {line}\n" for line in steps.splitlines())
    return f"blueprint_metadata: {{id: own, version: '1', description: d}}\ndag:\n{more}  steps:\n{listed}{top}\n"


def parsed(text: str) -> Blueprint:
    blueprint = parse_blueprint(text.encode(), is_json=False).blueprint
    assert blueprint
    return blueprint


def findings(
    text: str,
    tools: dict[str, Descriptor] = PROJECT,
    limits: BlueprintLimits | None = None,
    refused: dict[str, Refused] | None = None,
) -> list[str]:
    """Each finding as `code path: message (hint)`, without the hint where it is long."""
    found = check_blueprint(parsed(text), tools, limits or BlueprintLimits(), refused or {})
    return [f"{issue.code} {issue}" for issue in found]


def faults(steps: str, dag: str = "", top: str = "") -> list[str]:
    """The findings about a blueprint with these steps; below a step the path begins behind `dag.steps`."""
    return [found.replace("dag.steps.", "", 1) for found in findings(blueprint_of(steps, dag, top))]


def test_a_right_blueprint_has_no_findings() -> None:
    assert findings(REFUND, TOOLS) == []


def test_all_faults_arrive_together_each_with_its_line_and_column() -> None:
    text = blueprint_of(
        "{id: a, capability: rea}\n{id: b}\n{id: b, capability: say, input_mapping: {txt: '${steps.c}'}}",
        dag="output_mapping: '${'",
    )
    reading = parse_blueprint(text.encode(), is_json=False)
    assert reading.blueprint

    found = located_findings(reading, check_blueprint(reading.blueprint, PROJECT))

    assert shown(found) == [
        (
            "3:3 dag.output_mapping: Not an expression: `${` is not closed: "
            "add `}` after the expression, or write `$${` for the characters themselves"
        ),
        "5:15 dag.steps.0.capability: No tool has the id 'rea' (did you mean `read`?)",
        (
            "6:7 dag.steps.1: A step needs `capability` or `wait`: it has neither "
            "(say which tool it calls with `capability`, or what it waits for with `wait`)"
        ),
        "7:8 dag.steps.2.id: Another step, at position 2, has the id 'b' (rename one of them)",
        "7:32 dag.steps.2.input_mapping: 'say' needs the argument 'text' (map a value to 'text')",
        "7:48 dag.steps.2.input_mapping.txt: 'say' has no argument 'txt' (did you mean `text`?)",
        "7:48 dag.steps.2.input_mapping.txt: No step has the id 'c'",
    ]


# Steps and waits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "found"),
    [
        (
            "{id: a, capability: read, wait: {kind: time, seconds: 1}}",
            ["step-kind 0.wait: A step has `capability` or `wait`, not both"],
        ),
        (
            "{id: a, wait: {kind: person}}",
            ["incomplete-wait 0.wait: A wait for a person needs `question`: what the person is asked"],
        ),
        (
            "{id: a, wait: {kind: signal}}",
            ["incomplete-wait 0.wait: A wait for a signal needs `signal`: the name of the signal"],
        ),
        (
            "{id: a, wait: {kind: time}}",
            ["incomplete-wait 0.wait: A wait for a time needs `seconds` or `until`: how long it lasts"],
        ),
        (
            "{id: a, wait: {kind: time, seconds: 0, until: '2030-01-01'}}",
            ["incomplete-wait 0.wait: A wait for a time needs one of `seconds` and `until`, not both"],
        ),
        ("{id: a, wait: {kind: time, seconds: 0}}", []),
        ("{id: a, wait: {kind: time, until: '2030-01-01T00:00:00Z'}}", []),
        ("{id: a, wait: {kind: person, question: q, timeout_seconds: 5, default: null, role: r}}", []),
        ("{id: a, wait: {kind: signal, signal: s, schema: {type: string}}}", []),
        (
            "{id: a, wait: {kind: time, seconds: 1, question: q, default: 1}}",
            [
                "no-effect 0.wait.default: `default` has no effect on a wait for a time",
                "no-effect 0.wait.question: `question` has no effect on a wait for a time",
            ],
        ),
        (
            "{id: a, wait: {kind: person, question: q, default: x}}",
            ["no-effect 0.wait.default: `default` has no effect without `timeout_seconds`"],
        ),
        (
            "{id: a, wait: {kind: time, seconds: 1}, retry: {}, timeout_seconds: 5}",
            [
                "no-effect 0.retry: `retry` has no effect on a step that waits",
                "no-effect 0.timeout_seconds: `timeout_seconds` has no effect on a step that waits",
            ],
        ),
        (
            "{id: a, capability: list}\n{id: b, capability: read, for_each: {items: '${steps.a}', max_items: 101}}",
            ["unbatched 1.for_each.max_items: More than 100 items must be taken in batches"],
        ),
        (
            (
                "{id: a, capability: list}\n"
                "{id: b, capability: read, for_each: {items: '${steps.a}', max_items: 101, batch_size: 1}}"
            ),
            [],
        ),
        (
            "{id: a, capability: list}\n{id: b, wait: {kind: signal, signal: s}, for_each: {items: '${steps.a}'}}",
            ["repeated-signal 1.for_each: A signal comes once, and cannot be waited for once for each item"],
        ),
        (
            "{id: a, wait: {kind: signal, signal: s}}\n{id: b, wait: {kind: signal, signal: s}}",
            ["repeated-signal 1.wait.signal: The step 'a' waits for the signal 's' already"],
        ),
    ],
)
def test_a_step_says_what_it_does_and_nothing_else(step: str, found: list[str]) -> None:
    assert faults(step) == found


def test_an_approval_of_a_step_that_waits_has_no_effect() -> None:
    top = "hitl_requirements: [{step: a, reason: r}, {step: x, reason: r}]"

    assert faults("{id: a, wait: {kind: time, seconds: 1}}", top=top) == [
        "no-effect hitl_requirements.0.step: There is no call to approve: the step 'a' waits",
        "unknown-step hitl_requirements.1.step: No step has the id 'x'",
    ]


# References and order -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        (
            "{id: a, capability: read, condition: steps.b == 1}\n{id: b, capability: read}",
            ["later-step 0.condition: The step 'b' starts only after this one has ended"],
        ),
        (
            "{id: a, capability: read, condition: steps.a == 1}",
            ["later-step 0.condition: A step cannot wait for itself, nor read its own result"],
        ),
        (
            "{id: a, capability: read, after: [a, b, x]}\n{id: b, capability: read}",
            [
                "later-step 0.after.0: A step cannot wait for itself, nor read its own result",
                "later-step 0.after.1: The step 'b' starts only after this one has ended",
                "unknown-step 0.after.2: No step has the id 'x'",
            ],
        ),
        (
            (
                "{id: a, capability: say, is_parallel: true, input_mapping: {text: '${steps.b.text}'}}\n"
                "{id: b, capability: read, is_parallel: true}"
            ),
            [],
        ),
        (
            (
                "{id: c, capability: read, is_parallel: true, after: [a]}\n"
                "{id: a, capability: say, is_parallel: true, input_mapping: {text: 'x ${steps.b.text}'}}\n"
                "{id: b, capability: read, is_parallel: true, condition: has(steps.c)}"
            ),
            ["step-cycle 0: Steps wait for each other: c → b → a → c"],
        ),
        (
            (
                "{id: a, capability: read, is_parallel: true, after: [b]}\n"
                "{id: b, capability: read, is_parallel: true, after: [a]}\n"
                "{id: c, capability: read, is_parallel: true, after: [d]}\n"
                "{id: d, capability: read, is_parallel: true, after: [c]}"
            ),
            [
                "step-cycle 0: Steps wait for each other: a → b → a",
                "step-cycle 2: Steps wait for each other: c → d → c",
            ],
        ),
        ("{id: a, capability: own}", ["step-cycle 0.capability: A blueprint cannot call itself"]),
        (
            "{id: a, capability: say, input_mapping: {text: '${text(item)} ${index} ${result}'}}",
            [
                (
                    "out-of-scope 0.input_mapping.text: "
                    "`index` is known only in what a step with `for_each` does for each item"
                ),
                (
                    "out-of-scope 0.input_mapping.text: "
                    "`item` is known only in what a step with `for_each` does for each item"
                ),
                "out-of-scope 0.input_mapping.text: `result` is known only in a compensation",
            ],
        ),
        (
            (
                "{id: a, capability: list}\n"
                "{id: b, capability: read, condition: item == 1, for_each: {items: '${steps.a[index]}'}}"
            ),
            [
                "out-of-scope 1.condition: `item` is known only in what a step with `for_each` does for each item",
                (
                    "expression 1.for_each.items: Not an expression: a bracket holds a quoted name or a whole number, "
                    "such as `[0]` (at character 9 of `steps.a[index]`)"
                ),
            ],
        ),
        (
            "{id: a, capability: read, condition: 'steps.'}",
            [
                (
                    "expression 0.condition: Not an expression: a name follows a dot: the expression ends; "
                    'write other names as `["the name"]` (at character 7)'
                )
            ],
        ),
    ],
)
def test_a_step_reads_only_what_is_known_when_it_starts(steps: str, found: list[str]) -> None:
    assert sorted(faults(steps)) == sorted(found)


def test_what_a_compensation_reads_makes_no_cycle() -> None:
    steps = (
        "{id: a, capability: pay, is_parallel: true, input_mapping: {text: x},"
        " compensation: {capability: unpay, input_mapping: {id: '${steps.a.id}'}}}\n"
        "{id: b, capability: say, is_parallel: true, input_mapping: {text: '${steps.a.id}'},"
        " compensation: {capability: unpay, input_mapping: {id: '${steps.a.id}'}}}"
    )

    assert faults(steps) == []


def test_the_result_of_the_run_names_steps_that_there_are() -> None:
    assert faults("{id: a, capability: read}", dag="output_mapping: ['${steps.b}', '${steps.a}']") == [
        "unknown-step dag.output_mapping.0: No step has the id 'b'"
    ]


# Tools ----------------------------------------------------------------------------------------------------------------


def test_a_refused_tool_says_why_and_what_would_have_to_change() -> None:
    refusal = Refused(AdmissionCode.SCOPE_NOT_LOCKED, "It needs scopes that are not locked: x", "add them")
    text = blueprint_of("{id: a, capability: acme.post}")

    (found,) = check_blueprint(parsed(text), PROJECT, refused={"acme.post": refusal})

    assert found.message == "The tool 'acme.post' is refused: It needs scopes that are not locked: x"
    assert found.hint == "add them"


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        (
            "{id: a, capability: pay, input_mapping: {text: x}}\n{id: b, capability: read}",
            ["missing-compensation 0.capability: If a later step fails, nothing takes back what 'pay' has done"],
        ),
        # Nothing can fail after the last step.
        ("{id: b, capability: read}\n{id: a, capability: pay, input_mapping: {text: x}}", []),
        # Steps beside it can fail, and so can the other items.
        (
            (
                "{id: a, capability: pay, is_parallel: true, input_mapping: {text: x}}\n"
                "{id: b, capability: read, is_parallel: true}"
            ),
            ["missing-compensation 0.capability: If a later step fails, nothing takes back what 'pay' has done"],
        ),
        (
            (
                "{id: l, capability: list}\n"
                "{id: a, capability: pay, input_mapping: {text: x}, for_each: {items: '${steps.l}'}}"
            ),
            ["missing-compensation 1.capability: If a later step fails, nothing takes back what 'pay' has done"],
        ),
        ("{id: a, capability: look, input_mapping: {text: x}}\n{id: b, capability: read}", []),
        (
            (
                "{id: a, capability: pay, input_mapping: {text: x},"
                " compensation: {capability: burn, input_mapping: {id: '${result.id}'}}}\n{id: b, capability: read}"
            ),
            [
                (
                    "unsafe-compensation 0.compensation.capability: "
                    "'burn' is not idempotent: if its outcome is unknown, it is not tried again"
                )
            ],
        ),
        (
            (
                "{id: a, capability: pay, input_mapping: {text: x},"
                " compensation: {capability: unpay, input_mapping: {id: '${result.none}'}}}\n{id: b, capability: read}"
            ),
            [
                "ill-typed 0.compensation.input_mapping.id: 'unpay' takes string, and this is null",
                (
                    "undeclared-member 0.compensation.input_mapping.id: "
                    "`result` declares no member 'none': declared are id"
                ),
            ],
        ),
        (
            "{id: a, capability: read, compensation: {capability: unpaid}}",
            ["unknown-capability 0.compensation.capability: No tool has the id 'unpaid'"],
        ),
    ],
)
def test_what_a_step_has_done_can_be_taken_back(steps: str, found: list[str]) -> None:
    assert faults(steps) == found


@pytest.mark.parametrize(("kind", "words"), [("TOOL", "`agent index probe`"), ("CAPABILITY", "as idempotent")])
def test_the_hint_names_the_other_way_out_for_each_kind_of_tool(kind: Any, words: str) -> None:
    text = blueprint_of("{id: a, capability: pay, input_mapping: {text: x}}\n{id: b, capability: read}")
    pay = structs.replace(PROJECT["pay"], labels=Labels(kind=kind))

    (found,) = check_blueprint(parsed(text), PROJECT | {"pay": pay})

    assert words in (found.hint or "")


@pytest.mark.parametrize(
    ("top", "found"),
    [
        (
            "security_logic: {forbid: ['sec*']}",
            ["forbidden-capability 0.capability: `security_logic` forbids 'sec*', which matches 'secret'"],
        ),
        (
            "security_logic: {forbid: ['vault.*', 'vault.read']}",
            ["forbidden-capability 0.capability: `security_logic` forbids 'vault.*', which matches 'vault.read'"],
        ),
        ("security_logic: {forbid: ['pay']}", []),
        ("security_logic: {allow_outbound: false}", []),
    ],
)
def test_a_blueprint_keeps_what_it_forbids_itself(top: str, found: list[str]) -> None:
    assert faults("{id: a, capability: secret}", top=top) == found


@pytest.mark.parametrize("labels", [Labels(kind="CAPABILITY", allow_outbound=True), Labels(kind="TOOL")])
def test_a_tool_that_may_reach_other_machines_needs_leave(labels: Labels) -> None:
    tools = {"read": structs.replace(PROJECT["read"], labels=labels)}
    text = blueprint_of("{id: a, capability: read}", top="security_logic: {allow_outbound: false}")

    assert findings(text, tools) == [
        (
            "forbidden-capability dag.steps.0.capability: "
            "`security_logic` keeps data on this machine, and 'read' may reach other machines"
        )
    ]


def test_a_blueprint_stays_within_what_the_agent_may() -> None:
    top = "security_logic: {data_classification: RESTRICTED, required_scopes: [a, b]}"
    limits = BlueprintLimits(classification="INTERNAL", forbid=("vault.*",), scopes=frozenset({"a"}))

    assert findings(blueprint_of("{id: a, capability: secret}", top=top), limits=limits) == [
        "beyond-limits dag.steps.0.capability: 'secret' needs scopes that the lock does not admit: vault.read",
        (
            "beyond-limits dag.steps.0.capability: "
            "The data of 'secret' is RESTRICTED, and the agent may handle at most INTERNAL"
        ),
        "forbidden-capability dag.steps.0.capability: The agent forbids 'vault.*', which matches 'vault.read'",
        (
            "beyond-limits security_logic.data_classification: "
            "Its data is RESTRICTED, and the agent may handle at most INTERNAL"
        ),
        "beyond-limits security_logic.required_scopes: The blueprint needs scopes that the lock does not admit: b",
    ]


def test_a_blueprint_within_the_limits_has_no_findings() -> None:
    top = "security_logic: {data_classification: INTERNAL, required_scopes: [a]}"
    limits = BlueprintLimits(classification="INTERNAL", scopes=frozenset({"a"}))

    assert findings(blueprint_of("{id: a, capability: read}", top=top), limits=limits) == []


def test_a_caller_needs_all_that_the_steps_need_together() -> None:
    steps = (
        "{id: a, capability: read, compensation: {capability: secret}}\n{id: b, capability: absent}\n"
        "{id: c, wait: {kind: time, seconds: 1}}"
    )
    rules = blueprint_rules(parsed(blueprint_of(steps, top="security_logic: {required_scopes: [own]}")), PROJECT)

    assert (rules.classification, rules.required_scopes) == ("RESTRICTED", ("own", "vault.read"))
    assert (rules.is_idempotent, rules.needs_approval, rules.takes_approval) == (True, False, True)
    assert (rules.secrets, rules.secret_fields) == ((), ("pin",))


def test_a_blueprint_may_ask_for_more_than_its_steps() -> None:
    text = blueprint_of("{id: a, capability: read}", top="security_logic: {data_classification: CONFIDENTIAL}")

    assert blueprint_rules(parsed(text), PROJECT).classification == "CONFIDENTIAL"


# Types ----------------------------------------------------------------------------------------------------------------

READ = "{id: r, capability: read}\n"
LIST = "{id: l, capability: list}\n"


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        (READ + "{id: a, capability: say, input_mapping: {text: '${steps.r.text}'}}", []),
        (
            READ + "{id: a, capability: say, input_mapping: {text: '${steps.r.count}'}}",
            ["ill-typed 1.input_mapping.text: 'say' takes string, and this is integer"],
        ),
        (
            READ + "{id: a, capability: say, input_mapping: {text: '${steps.r.maybe}'}}",
            ["ill-typed 1.input_mapping.text: 'say' takes string, and this is null or string"],
        ),
        (READ + "{id: a, capability: say, input_mapping: {text: \"${steps.r.maybe ?? ''}\"}}", []),
        (READ + "{id: a, capability: say, input_mapping: {text: '${unchecked(steps.r.count)}'}}", []),
        (
            (
                "{id: r, capability: read, condition: run.id == 'x'}\n"
                "{id: a, capability: say, input_mapping: {text: '${steps.r.text}'}}"
            ),
            ["ill-typed 1.input_mapping.text: 'say' does not take null, which this may be"],
        ),
        # Nothing is known of what an open object has, or of a tool without an output schema.
        (
            (
                "{id: o, capability: loose}\n{id: s, capability: say, input_mapping: {text: '${steps.o.x}'}}\n"
                "{id: a, capability: say, input_mapping: {text: '${steps.s}'}}"
            ),
            [],
        ),
        ("{id: o, capability: loose, input_mapping: {anything: [1]}}", []),
        ("{id: a, capability: count, input_mapping: {to: 9}}", []),
        (
            "{id: a, capability: count, input_mapping: {to: 10}}",
            ["ill-typed 0.input_mapping.to: 'count' has the limit maximum: 9"],
        ),
        (
            READ + "{id: a, capability: count, input_mapping: {to: '${steps.r.count}'}}",
            [
                "may-be-refused 1.input_mapping.to: May be refused when it runs: 'count' has the limit maximum: 9",
                "may-be-refused 1.input_mapping.to: May be refused when it runs: 'count' has the limit minimum: 1",
            ],
        ),
        (
            READ + "{id: a, capability: read, condition: steps.r.text}",
            ["ill-typed 1.condition: a condition takes boolean, and this is string"],
        ),
        (
            READ + "{id: a, capability: read, for_each: {items: '${steps.r.text}'}}",
            ["ill-typed 1.for_each.items: `for_each` takes array, and this is string"],
        ),
        (LIST + "{id: a, capability: say, for_each: {items: '${steps.l}'}, input_mapping: {text: '${item.name}'}}", []),
        (
            LIST + "{id: a, capability: say, for_each: {items: '${steps.l}'}, input_mapping: {text: '${item}'}}",
            ["ill-typed 1.input_mapping.text: 'say' takes string, and this is object"],
        ),
        # The list cannot be read, or nothing is known of it, and so nothing is known of its items.
        (
            "{id: a, capability: say, for_each: {items: '${'}, input_mapping: {text: '${item}'}}",
            [
                (
                    "expression 0.for_each.items: Not an expression: `${` is not closed: "
                    "add `}` after the expression, or write `$${` for the characters themselves"
                )
            ],
        ),
        (
            (
                "{id: o, capability: loose}\n"
                "{id: a, capability: say, for_each: {items: '${steps.o.x}'}, input_mapping: {text: '${item}'}}"
            ),
            [],
        ),
        # A fan-out gives a list.
        (
            LIST + "{id: c, capability: count, for_each: {items: '${steps.l}'}, input_mapping: {to: 1}}\n"
            "{id: a, capability: count, input_mapping: {to: '${unchecked(steps.c[0])}'}}\n"
            "{id: b, capability: say, input_mapping: {text: '${steps.c}'}}",
            ["ill-typed 3.input_mapping.text: 'say' takes string, and this is array"],
        ),
        (
            "{id: w, wait: {kind: person, question: q}}\n{id: a, capability: say, input_mapping: {text: '${steps.w}'}}",
            [],
        ),
        (
            (
                "{id: w, wait: {kind: person, question: q, timeout_seconds: 1, default: 5}}\n"
                "{id: a, capability: say, input_mapping: {text: '${steps.w}'}}"
            ),
            ["ill-typed 1.input_mapping.text: 'say' does not take {\"const\":5}"],
        ),
        (
            "{id: w, wait: {kind: time, seconds: 1}}\n{id: a, capability: say, input_mapping: {text: '${steps.w}'}}",
            ["ill-typed 1.input_mapping.text: 'say' takes string, and this is null"],
        ),
        (
            "{id: w, wait: {kind: signal, signal: s}}\n{id: a, capability: say, input_mapping: {text: '${steps.w}'}}",
            [],
        ),
        (
            (
                "{id: w, wait: {kind: signal, signal: s, schema: {type: integer}}}\n"
                "{id: a, capability: say, input_mapping: {text: '${steps.w}'}}"
            ),
            ["ill-typed 1.input_mapping.text: 'say' takes string, and this is integer"],
        ),
        (
            READ + "{id: w, wait: {kind: time, until: '${steps.r.count}'}}",
            ["ill-typed 1.wait.until: a time takes string, and this is integer"],
        ),
        (
            "{id: a, capability: absent, input_mapping: {x: 1}}",
            ["unknown-capability 0.capability: No tool has the id 'absent'"],
        ),
    ],
)
def test_values_fit_where_they_go(steps: str, found: list[str]) -> None:
    assert faults(steps) == found


NESTED = {
    "who": {
        "type": "object",
        "properties": {
            "name": TEXT,
            "tags": {"type": "array", "items": TEXT, "uniqueItems": True},
            "any name": {"enum": ["x", "y"]},
            "never": False,
        },
        "required": ["name"],
        "additionalProperties": False,
    }
}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("{name: n}", []),
        ("{}", ["ill-typed {}: 'nest' needs \"name\", which is missing"]),
        (
            "{name: n, other: '${steps.x}'}",
            [
                "ill-typed {}.other: 'nest' takes no value here",
                "unknown-step {}.other: No step has the id 'x'",
            ],
        ),
        ("{name: n, other: 1}", ["ill-typed {}.other: 'nest' takes no value here"]),
        ("{name: n, never: 1}", ["ill-typed {}.never: 'nest' takes no value here"]),
        ("{name: n, tags: [a, 1]}", ["ill-typed {}.tags.1: 'nest' takes string, and this is integer"]),
        ("{name: n, tags: [a, a]}", ["ill-typed {}.tags: 'nest' takes no item twice"]),
        (
            "{name: n, any name: z}",
            ["ill-typed {}.any name: 'nest' takes only the values that its schema lists, not [\"z\"]"],
        ),
        (
            "{name: n, any name: '${steps.r.text}'}",
            [
                (
                    "may-be-refused {}.any name: May be refused when it runs: "
                    "'nest' takes only the values that its schema lists, not any value"
                )
            ],
        ),
        ("'${steps.l}'", ["ill-typed {}: 'nest' takes object, and this is array"]),
        (
            "'${steps.r}'",
            [
                "may-be-refused {}: May be refused when it runs: 'nest' needs \"name\", which is missing",
                "may-be-refused {}: May be refused when it runs: 'nest' takes no value here (at $.who.count)",
                "may-be-refused {}: May be refused when it runs: 'nest' takes no value here (at $.who.maybe)",
                "may-be-refused {}: May be refused when it runs: 'nest' takes no value here (at $.who.text)",
            ],
        ),
        (
            "{name: n, tags: '${steps.l}'}",
            [
                "ill-typed {}.tags: 'nest' takes string, and this is object (at $.who.tags[*])",
                "may-be-refused {}.tags: May be refused when it runs: 'nest' takes no item twice",
            ],
        ),
    ],
)
def test_a_fault_inside_of_an_argument_has_its_own_place(value: str, found: list[str]) -> None:
    tools = {**PROJECT, "nest": tool("nest", NESTED)}
    text = blueprint_of(f"{READ}{LIST}{{id: a, capability: nest, input_mapping: {{who: {value}}}}}")
    expected = [each.format("dag.steps.2.input_mapping.who") for each in found]

    assert findings(text, tools) == expected


def test_a_schema_that_refers_to_its_own_parts_is_followed() -> None:
    shape = {"$ref": "#/$defs/t", "$id": "urn:x", "$defs": {"t": {"type": "string"}}}
    tools = {**PROJECT, "make": tool("make", {}, shape)}
    steps = "{id: m, capability: make, condition: run.id == 'x'}\n"

    assert findings(blueprint_of(steps + "{id: a, capability: say, input_mapping: {text: '${steps.m}'}}"), tools) == [
        "ill-typed dag.steps.1.input_mapping.text: 'say' does not take null, which this may be"
    ]


def test_a_tool_whose_schema_is_not_understood_is_left_to_the_call() -> None:
    strange = {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}
    tools = {
        "odd": structs.replace(PROJECT["read"], id="odd", input_schema=strange, output_schema=strange),
        "say": PROJECT["say"],
    }
    steps = (
        "{id: o, capability: odd, input_mapping: {x: 1}}\n{id: a, capability: say, input_mapping: {text: '${steps.o}'}}"
    )

    assert findings(blueprint_of(steps), tools) == []


@pytest.mark.parametrize(
    ("dag", "found"),
    [
        ("output_schema: {type: string}\noutput_mapping: '${steps.a.text}'", []),
        (
            "output_schema: {type: string}\noutput_mapping: '${steps.a.count}'",
            ["ill-typed dag.output_mapping: the output schema takes string, and this is integer"],
        ),
        (
            "output_schema: {type: string}",
            ["ill-typed dag.output_mapping: the output schema takes string, and this is null"],
        ),
        (
            "input_schema: {type: string}",
            ["unusable-schema dag.input_schema: The arguments of a tool are an object: `type: object` is missing"],
        ),
        (
            "output_schema: {type: text}\noutput_mapping: 1",
            [
                (
                    "unusable-schema dag.output_schema: "
                    "`type` is not something that a JSON Schema (2020-12) of one document can say here"
                )
            ],
        ),
    ],
)
def test_what_comes_out_follows_the_schema(dag: str, found: list[str]) -> None:
    assert faults("{id: a, capability: read}", dag=dag) == found


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ("{id: a, capability: read, condition: steps.r.txet == 'x'}", ["condition"]),
        ("{id: a, capability: say, input_mapping: {text: '${steps.r.text} ${steps.r.txet}'}}", ["input_mapping.text"]),
        ("{id: a, capability: say, input_mapping: {text: 'x ${unchecked(steps.r.txet)}'}}", []),
    ],
)
def test_a_member_that_no_schema_has_is_a_slip(step: str, found: list[str]) -> None:
    message = "`steps.r` declares no member 'txet': did you mean 'text'?"

    assert faults(READ + step) == [f"undeclared-member 1.{place}: {message}" for place in found]


def test_schemas_that_are_too_large_together_are_left_to_the_run() -> None:
    large = {**gives(p1=TEXT), "description": "x" * 2_000_000}
    tools = {**PROJECT, "large": tool("large", {}, large)}
    steps = "{id: l, capability: large}\n{id: s, capability: count, input_mapping: {to: '${steps.l.p1}'}}\n"
    # Both steps would be ill-typed.
    steps += "{id: e, capability: say, for_each: {items: '${steps.l.p1}'}, input_mapping: {text: '${index}'}}"
    text = blueprint_of(steps, top="acceptance_tests: [{name: t, results: {l: {}}}]")

    assert findings(text, tools) == [
        "may-be-refused dag: May be refused when it runs: the schemas are too large to check every value"
    ]


def test_a_thousand_findings_are_enough_and_the_blueprint_is_refused() -> None:
    texts = ", ".join(["'${item}'"] * 1_001)

    found = check_blueprint(
        parsed(blueprint_of(f"{{id: a, capability: loose, input_mapping: {{x: [{texts}]}}}}")), PROJECT
    )

    assert len(found) == 1_001
    assert str(found[-1]) == "(file): More than 1,000 findings: the others are left out"
    assert found[-1].severity == "error"


def test_the_schema_of_a_signal_must_be_one() -> None:
    assert faults("{id: a, wait: {kind: signal, signal: s, schema: {type: 1}}}") == [
        (
            "unusable-schema 0.wait.schema: "
            "`type` is not something that a JSON Schema (2020-12) of one document can say here"
        )
    ]


def test_an_acceptance_test_is_one_that_a_run_could_pass() -> None:
    text = REFUND.replace("input: {ticket: 7}", "input: {ticket: 0, reasn: x}")
    text = text.replace("results: {refund: {refund: r-1}}", "results: {refund: {refund: 1}, refnd: 1, mail: [1]}")
    text = text.replace("output: {refund: r-1}", "output: {refund: null}")

    assert findings(text, TOOLS) == [
        "ill-typed acceptance_tests.0.input.reasn: the input schema takes no value here",
        "ill-typed acceptance_tests.0.input.ticket: the input schema has the limit minimum: 1",
        "ill-typed acceptance_tests.0.output.refund: the output schema takes string, and this is null",
        "unknown-step acceptance_tests.0.results.refnd: No step has the id 'refnd'",
        "ill-typed acceptance_tests.0.results.refund.refund: the result of 'refund' takes string, and this is integer",
    ]


def test_a_test_without_an_output_or_an_output_schema_is_right() -> None:
    top = "acceptance_tests: [{name: a}, {name: b, output: 1}]"

    assert faults("{id: a, capability: read}", top=top) == []
