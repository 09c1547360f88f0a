"""Which step waits for which."""

import pytest

from agent_resolver.core import (
    first_cycle,
    needs_in_group,
    parse_condition,
    parse_template,
    step_groups,
    steps_read_by,
    waves_of,
)
from agent_resolver.schema import Blueprint
from tests.core.blueprint.runs import blueprint

A, B, C = ({"id": name} for name in "abc")
PA, PB, PC, PD = ({"id": name, "is_parallel": True} for name in "abcd")


def test_neighbouring_parallel_steps_are_a_group() -> None:
    groups = step_groups(blueprint(PA, PB, C, {"id": "e"}, PD).dag.steps)

    assert [[step.id for step in group] for group in groups] == [["a", "b"], ["c"], ["e"], ["d"]]


def test_templates_read_steps() -> None:
    templates = [parse_template({"x": ["${steps.a.b}", "${input.c} and ${steps.d}"]}), parse_condition("has(steps.e)")]

    assert steps_read_by(templates) == {"a", "d", "e"}


def test_a_step_needs_what_it_reads_and_comes_after_in_its_group() -> None:
    group = blueprint(PA, {**PB, "after": ["a", "earlier"]}).dag.steps

    assert needs_in_group(group, {"a": frozenset({"earlier"}), "b": frozenset()}) == {
        "a": frozenset(),
        "b": frozenset({"a"}),
    }


@pytest.mark.parametrize(
    ("needs", "cycle"),
    [
        ({"a": ""}, ()),
        ({"a": "b", "b": "c", "c": ""}, ()),
        ({"a": "a"}, ("a",)),
        ({"a": "b", "b": "c", "c": "b"}, ("b", "c")),
        ({"c": "ab", "b": "c", "a": ""}, ("b", "c")),
    ],
)
def test_a_cycle_is_found(needs: dict[str, str], cycle: tuple[str, ...]) -> None:
    found = first_cycle({step: frozenset(needed) for step, needed in needs.items()})

    assert sorted(found) == sorted(cycle)


@pytest.mark.parametrize(
    ("flow", "waves"),
    [
        (blueprint(B, A), (("b",), ("a",))),
        (blueprint(PB, {**PA, "after": ["b"]}, PC, {"id": "d"}), (("b", "c"), ("a",), ("d",))),
        (
            blueprint({**PB, "for_each": {"items": "${steps.a}"}}, PA, {**PC, "condition": "steps.b == 1"}),
            (("a",), ("b",), ("c",)),
        ),
        (blueprint(PA, {**PB, "wait": {"kind": "time", "until": "${steps.a}"}}), (("a",), ("b",))),
        (blueprint({**A, "for_each": {"items": "literal"}}), (("a",),)),
    ],
)
def test_waves_can_be_drawn_without_a_run(flow: Blueprint, waves: tuple[tuple[str, ...], ...]) -> None:
    assert waves_of(flow) == waves
