"""What planners are asked and what they answer, as it is kept and sent."""

import msgspec

from agent_resolver.schema import Drafted, Evaluation, RemedyRequest, TestResult as Result, Violation

EVALUATION = Evaluation(
    artifact="draft-1",
    content="sha256-" + "0" * 64,
    outcome="REJECTED",
    rules=("OPS-EGR-001",),
    violations=(
        Violation(
            id="OPS-EGR-001/mail",
            rule="OPS-EGR-001",
            standard="UIM-001",
            step="mail",
            message="It reaches unknown hosts",
            remedy="List them",
            choices=("leave-out", "allowed"),
        ),
    ),
    tests=(Result(name="works", passed=True),),
)


def test_an_evaluation_comes_back_from_its_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(EVALUATION), type=Evaluation) == EVALUATION


def test_nothing_is_drafted_unless_it_is_said() -> None:
    drafted = Drafted()

    assert (drafted.blueprint, drafted.arguments, drafted.questions) == (None, {}, ())


def test_a_remedy_is_about_the_whole_draft_unless_it_names_a_step() -> None:
    assert RemedyRequest(id="OPS-TST-001/none", rule="OPS-TST-001", action="add-test").step == ""
