"""Laws that hold for every request over every set of tools."""

from random import Random

from hypothesis import given, settings, strategies as st
from msgspec import structs

from agent_resolver.core.blueprint.tool_rule import calls_of
from agent_resolver.schema import Descriptor
from agent_resolver.schema.blueprint_file import encode_blueprint, parse_blueprint
from tests.reasoner.evals import EVALS
from tests.reasoner.planner.manifest import TOOLS, ask
from tests.reasoner.planner.stage import Planned, faults, plan
from tests.reasoner.planner.tools import SENTENCES, manifests

INTENTS = st.sampled_from([case.request for case in EVALS.cases])


@given(intent=INTENTS, shuffle=st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_the_tools_makes_no_difference(intent: str, shuffle: Random) -> None:
    shuffled = [*TOOLS]
    shuffle.shuffle(shuffled)

    assert plan(ask(intent, tools=tuple(shuffled))) == plan(ask(intent))


@given(intent=SENTENCES, tools=manifests())
@settings(deadline=None)
def test_a_plan_passes_the_check_or_asks(intent: str, tools: tuple[Descriptor, ...]) -> None:
    planned = plan(ask(intent, tools=tools))

    if planned.drafted.blueprint:
        assert faults(planned.drafted.blueprint, tools) == []
        read = parse_blueprint(encode_blueprint(planned.blueprint), is_json=True)
        assert read.blueprint == planned.blueprint


@given(intent=SENTENCES, tools=manifests(), answer=st.text(max_size=20))
@settings(deadline=None)
def test_a_plan_names_no_tool_that_is_not_in_the_list(intent: str, tools: tuple[Descriptor, ...], answer: str) -> None:
    """Answers do not bring in tools either."""
    first = plan(ask(intent, tools=tools))
    second = plan(ask(intent, dict.fromkeys(first.asks, answer), tools=tools))

    for planned in (first, second):
        assert used(planned) <= {tool.id for tool in tools}


def used(planned: Planned) -> set[str]:
    called = calls_of(planned.drafted.blueprint) if planned.drafted.blueprint else ()
    return {*planned.classified.tools, *(call.tool for call in called)}


@given(intent=st.text(max_size=120))
@settings(deadline=None)
def test_any_text_is_answered(intent: str) -> None:
    planned = plan(ask(intent))

    assert planned.asks or planned.classified.tools or planned.classified.missing


@given(intent=INTENTS)
@settings(deadline=None)
def test_one_tool_more_that_nobody_asks_for_changes_no_plan(intent: str) -> None:
    other = structs.replace(TOOLS[0], id="zoo.feed", description="Feed an elephant.", input_schema={"type": "object"})

    assert plan(ask(intent, tools=(*TOOLS, other))).classified == plan(ask(intent)).classified
