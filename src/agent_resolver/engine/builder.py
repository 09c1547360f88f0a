"""Writes a blueprint in Python: the same data as a file gives, and the same findings where it is wrong."""

import json
from collections.abc import Mapping
from typing import Any, Self, TypedDict, Unpack

import msgspec
from msgspec import UNSET, UnsetType, structs

from agent_resolver.core.blueprint.call_check import BlueprintLimits
from agent_resolver.core.blueprint.check import NO_LIMITS, check_blueprint
from agent_resolver.schema.blueprint import (
    AcceptanceTest,
    Blueprint,
    BlueprintMetadata,
    Compensation,
    Dag,
    ForEach,
    HumanRequirement,
    Retry,
    SecurityLogic,
    Step,
    Tuning,
    Wait,
)
from agent_resolver.schema.blueprint_file import parse_blueprint
from agent_resolver.schema.classification import Classification
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.errors import InvalidBlueprint
from agent_resolver.schema.issue import Issue, IssueCode, only_errors


class StepOptions(TypedDict, total=False):
    """The settings of any step; each is the key of the same name in a file."""

    is_parallel: bool
    after: tuple[str, ...]
    condition: str
    for_each: ForEach


class CallOptions(StepOptions, total=False):
    """The settings of a step that calls a tool."""

    compensation: Compensation
    retry: Retry
    timeout_seconds: float


class AnswerOptions(TypedDict, total=False):
    """The longest wait for an answer, and the value that counts in its place then."""

    timeout_seconds: float
    default: Any


class MetadataOptions(TypedDict, total=False):
    """The facts that a blueprint can state about itself."""

    maintainer: str
    cost_center: str
    tags: tuple[str, ...]


class SecurityOptions(TypedDict, total=False):
    """The limits that a blueprint can set itself."""

    data_classification: Classification
    required_scopes: tuple[str, ...]
    forbid: tuple[str, ...]
    allow_outbound: bool


class TuningOptions(TypedDict, total=False):
    """The settings of every step that does not have its own."""

    retry: Retry
    step_timeout_seconds: float
    max_parallel: int


class BlueprintBuilder:
    """Collects the parts of a blueprint; steps come in the order of the calls.

    Each method returns the builder, so that calls can be chained:

        BlueprintBuilder("tickets.close", "1.0.0", "Closes a ticket")
            .takes({"type": "object", "properties": {"ticket": {"type": "integer"}}, "required": ["ticket"]})
            .call("close", "tickets.close", {"ticket": "${input.ticket}"})
            .build()
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - the key of the format
        version: str,
        description: str,
        **more: Unpack[MetadataOptions],
    ) -> None:
        self._metadata = BlueprintMetadata(
            id=id, version=version, description=description, **more
        )
        self._input_schema: dict[str, Any] | None = None
        self._output_schema: dict[str, Any] | UnsetType = UNSET
        self._output_mapping: Any = None
        self._steps: list[Step] = []
        self._tests: list[AcceptanceTest] = []
        self._requirements: list[HumanRequirement] = []
        self._security = SecurityLogic()
        self._tuning = Tuning()

    # Around the steps -----------------------------------------------------------------

    def takes(self, input_schema: dict[str, Any]) -> Self:
        """Say what the arguments are; without this there are none."""
        self._input_schema = input_schema
        return self

    def gives(
        self,
        output_mapping: Any,  # noqa: ANN401 - JSON
        output_schema: dict[str, Any] | None = None,
    ) -> Self:
        """Say what the result of a run is, as a template, and the schema that it follows."""
        self._output_mapping = output_mapping
        self._output_schema = UNSET if output_schema is None else output_schema
        return self

    def secure(self, **limits: Unpack[SecurityOptions]) -> Self:
        """Set limits on top of those of the steps."""
        self._security = SecurityLogic(**limits)
        return self

    def tune(self, **settings: Unpack[TuningOptions]) -> Self:
        """Set what holds for every step that does not say otherwise."""
        self._tuning = Tuning(**settings)
        return self

    def approve(self, step: str, reason: str) -> Self:
        """Have a person approve the call of a step; the approver is shown the reason."""
        self._requirements.append(HumanRequirement(step=step, reason=reason))
        return self

    def test(
        self,
        name: str,
        arguments: dict[str, Any],
        results: dict[str, Any] | None = None,
        output: Any | UnsetType = UNSET,  # noqa: ANN401 - JSON
    ) -> Self:
        """Add an acceptance test: what comes in, what steps return, and what must come out."""
        self._tests.append(
            AcceptanceTest(
                name=name, input=arguments, results=results or {}, output=output
            )
        )
        return self

    # Steps ----------------------------------------------------------------------------

    def call(
        self,
        id: str,  # noqa: A002 - the key of the format
        capability: str,
        input_mapping: dict[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Self:
        """Add a step that calls a tool."""
        self._steps.append(
            Step(
                id=id,
                capability=capability,
                input_mapping=input_mapping or {},
                **options,
            )
        )
        return self

    def wait(self, id: str, wait: Wait, **options: Unpack[StepOptions]) -> Self:  # noqa: A002 - the key of the format
        """Add a step that waits, in all detail; the methods below are shorter."""
        self._steps.append(Step(id=id, wait=wait, **options))
        return self

    def ask(
        self,
        id: str,  # noqa: A002 - the key of the format
        question: str,
        *,
        role: str = "approver",
        **ending: Unpack[AnswerOptions],
    ) -> Self:
        """Add a step that waits for the answer of a person."""
        return self.wait(
            id, Wait(kind="person", question=question, role=role, **ending)
        )

    def receive(
        self,
        id: str,  # noqa: A002 - the key of the format
        signal: str,
        schema: dict[str, Any] | UnsetType = UNSET,
        **ending: Unpack[AnswerOptions],
    ) -> Self:
        """Add a step that waits for a signal, and returns the data that it brings."""
        return self.wait(
            id, Wait(kind="signal", signal=signal, schema=schema, **ending)
        )

    def pause(
        self,
        id: str,  # noqa: A002 - the key of the format
        *,
        seconds: float | UnsetType = UNSET,
        until: str = "",
    ) -> Self:
        """Add a step that waits for a while, or until a time."""
        return self.wait(id, Wait(kind="time", seconds=seconds, until=until))

    # The end --------------------------------------------------------------------------

    def build(
        self,
        tools: Mapping[str, Descriptor] | None = None,
        limits: BlueprintLimits = NO_LIMITS,
    ) -> Blueprint:
        """The blueprint, as it would be read from a file.

        Args:
            tools: The tools that it may call, by id. Without them only its form is checked.
            limits: What the agent that it is for allows.

        Raises:
            InvalidBlueprint: With every error that `agent blueprint check` would find.
        """
        blueprint = _read_again(self._collected())
        errors = (
            []
            if tools is None
            else only_errors(check_blueprint(blueprint, tools, limits))
        )
        if errors:
            raise InvalidBlueprint(errors)
        return blueprint

    def _collected(self) -> Blueprint:
        dag = Dag(
            steps=tuple(self._steps),
            output_schema=self._output_schema,
            output_mapping=self._output_mapping,
        )
        if self._input_schema is not None:
            dag = structs.replace(dag, input_schema=self._input_schema)
        return Blueprint(
            blueprint_metadata=self._metadata,
            dag=dag,
            acceptance_tests=tuple(self._tests),
            hitl_requirements=tuple(self._requirements),
            security_logic=self._security,
            temporal_tuning=self._tuning,
        )


def _read_again(blueprint: Blueprint) -> Blueprint:
    """The same blueprint, checked like one from a file, and without a tie to any value of the program."""
    try:
        text = json.dumps(msgspec.to_builtins(blueprint), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        issue = Issue(
            at=(), code=IssueCode.INVALID_TYPE, message=f"A value is not JSON: {error}"
        )
        raise InvalidBlueprint([issue]) from None
    try:
        found = parse_blueprint(text.encode(), is_json=True).blueprint
    except InvalidBlueprint as error:
        # A blueprint that is built has no lines.
        raise InvalidBlueprint(
            [structs.replace(issue, line=1, column=1) for issue in error.issues]
        ) from None
    assert found is not None  # noqa: S101 - `parse_blueprint` raises otherwise
    return found
