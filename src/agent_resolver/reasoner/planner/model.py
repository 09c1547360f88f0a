"""The planner that asks a model where the rules of the offline planner leave something open.

The offline planner goes first and stays the judge. A model is asked about three things alone: which tools do a part of
a request that no rule could place, which words of the request are an input that is still open, and what a person who
approves a draft should know. Its answer is checked against a schema that is made for the question, repaired once, and
else not used. The draft itself is always written by the offline planner, so that no answer of a model can add a tool
that is not authorised, a value that the request does not state, or a step that breaks the format.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from msgspec import Struct, structs

from agent_resolver.reasoner.planner.agent_port import (
    AgentQuestion,
    AgentReply,
    AskAgent,
)
from agent_resolver.reasoner.planner.builder import lay_out
from agent_resolver.reasoner.planner.classifier import (
    ToolManifest,
    classify_routing,
    route,
)
from agent_resolver.reasoner.planner.model_contract import (
    argument_schema,
    choice_schema,
    chosen_tools,
    concern_schema,
    found_words,
    read_answer,
    spoken_concerns,
)
from agent_resolver.reasoner.planner.model_question import (
    MAX_QUESTION,
    argument_question,
    audit_question,
    choice_question,
    ranked_tools,
    repair_question,
)
from agent_resolver.reasoner.planner.model_reading import (
    apply_choices,
    confirmed_choices,
    open_parts,
)
from agent_resolver.reasoner.planner.offline import OfflinePlanner
from agent_resolver.reasoner.planner.stated_reading import stated_readings
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.golden_path import Answer
from agent_resolver.schema.planning import AuditAdvice, Classified, Drafted, PlanRequest
from agent_resolver.schema.skill import Skill

FALLBACK: Final = "PLANNER_FALLBACK"
"""Says in a decision record that a model was to be asked, and that the offline planner decided without it."""
WITH_MODEL: Final = "PLANNER_MODEL"
"""Says in a decision record that a model was asked and answered as it should; the skill is the code after it."""
BUILDER: Final = "builder"
OPS: Final = "ops"
SKILL_NAMES: Final = (BUILDER, OPS)
_SPOKEN: Final = "A model notes: "
_MAX_OUTPUT_TOKENS: Final = 1_024
_ATTEMPTS: Final = 2
_KEPT_ANSWERS: Final = 64


def fallback_reasons(codes: Sequence[str]) -> tuple[str, ...]:
    """The reasons why a model could not help: in the codes of an answer, each follows `PLANNER_FALLBACK`."""
    return tuple(reason for code, reason in pairwise(codes) if code == FALLBACK)


class Consulted(Struct, frozen=True, kw_only=True):
    """The result of asking a model."""

    document: dict[str, Any] | None = None
    """The answer, which follows its schema; None if there is none."""
    tokens: int = 0
    codes: tuple[str, ...] = ()


class ModelPlanner:
    """Plans like the offline planner, and asks a model about what that one leaves open."""

    def __init__(
        self,
        agent: AskAgent,
        skills: Mapping[str, Skill],
        *,
        seconds: float = 120.0,
    ) -> None:
        """A planner with a model.

        Args:
            agent: Asks the model. If it has `async close()`, the planner's own calls it.
            skills: The prompts, by the names in `SKILL_NAMES`.
            seconds: How long one answer may take.
        """
        self._agent = agent
        self._skills = skills
        self._seconds = seconds
        self._offline = OfflinePlanner()
        self._answers: dict[str, dict[str, Any]] = {}
        """Answers by question: stages run again, and the same question has the same answer and costs nothing."""

    async def close(self) -> None:
        """Close what answers for the model; the planner cannot be asked after that."""
        close: Callable[[], Any] | None = getattr(self._agent, "close", None)
        if close is not None:
            await close()

    async def classify(self, request: PlanRequest) -> Classified:
        """Find the tools for each part of a request; a model is asked about parts that the rules leave open."""
        manifest = ToolManifest(request.tools)
        routing = route(request, manifest)
        parts = open_parts(routing)
        confirmed = confirmed_choices(parts, request.answers, manifest.tools)
        # A part that the person has answered needs no model.
        asked = [part for part in parts if part.number not in confirmed]
        if not parts or not manifest.tools:
            return classify_routing(routing)
        text, shown = choice_question(request, asked, ranked_tools(asked, manifest))
        consulted = Consulted()
        if asked and shown:
            schema = choice_schema([part.number for part in asked], shown)
            consulted = await self._consult(BUILDER, text, schema, request)
        proposed = chosen_tools(consulted.document) if consulted.document else {}
        found = apply_choices(routing, confirmed, proposed, manifest.tools)
        return structs.replace(found, tokens=consulted.tokens, codes=consulted.codes)

    async def build(self, request: PlanRequest) -> Drafted:
        """Draft the plan; a model is asked which words of the request are the inputs that are still open."""
        readings, consulted = await self._read_inputs(request)
        answered = structs.replace(request, answers=(*request.answers, *readings))
        drafted = await self._offline.build(answered)
        if request.draft is not None:
            # A draft that is changed takes its arguments from a new one: what that one
            # would ask is open here too.
            fresh = await self._offline.build(
                structs.replace(answered, draft=None, remedies=())
            )
            drafted = fresh if fresh.questions else drafted
        return structs.replace(
            drafted, readings=readings, tokens=consulted.tokens, codes=consulted.codes
        )

    async def audit(self, request: PlanRequest) -> AuditAdvice:
        """Let a model say what is worth knowing about a draft; the rules of Ops never see what it says."""
        if request.draft is None:
            return AuditAdvice()
        consulted = await self._consult(
            OPS, audit_question(request, request.draft), concern_schema(), request
        )
        spoken = spoken_concerns(consulted.document) if consulted.document else ()
        concerns = tuple(f"{_SPOKEN}{words}" for words in spoken)
        return AuditAdvice(
            concerns=concerns, tokens=consulted.tokens, codes=consulted.codes
        )

    # Inputs ---------------------------------------------------------------------------

    async def _read_inputs(
        self, request: PlanRequest
    ) -> tuple[tuple[Answer, ...], Consulted]:
        """The values that a model points out in the words of the request, as far as each fits its input."""
        manifest = ToolManifest(request.tools)
        layout = lay_out(request, manifest)
        if layout is None or not layout.inputs.open:
            return (), Consulted()
        inputs = layout.inputs.open
        text = argument_question(request, inputs)
        schema = argument_schema([each.name for each in inputs])
        consulted = await self._consult(BUILDER, text, schema, request)
        words = found_words(consulted.document) if consulted.document else {}
        readings = stated_readings(
            words, inputs, layout.inputs.given, layout.routing.split
        )
        # The offline planner judges each: what does not fit is asked for as if nothing
        # had been found.
        tried = lay_out(
            structs.replace(request, answers=(*request.answers, *readings)), manifest
        )
        unfit = (
            {question.key for question in tried.inputs.questions} if tried else set()
        )
        return tuple(each for each in readings if each.key not in unfit), consulted

    # The model ------------------------------------------------------------------------

    async def _consult(
        self,
        skill: str,
        text: str,
        schema: dict[str, Any],
        request: PlanRequest,
    ) -> Consulted:
        """Ask the model, and once again if its answer cannot be used. Nothing that it does is an exception."""
        prompt = self._skills[skill]
        # A question that is cut would be another question, so that the offline planner
        # decides instead.
        if len(text) > MAX_QUESTION:
            return Consulted(codes=(FALLBACK, "QUESTION_TOO_LONG"))
        # The schema of the answer is made for the same question, so that it need not be
        # a part of the key.
        key = digest([prompt.digest, text])
        # The tokens of a kept answer were counted when it was given.
        if key in self._answers:
            return Consulted(
                document=self._answers[key], codes=(WITH_MODEL, prompt.label)
            )
        tokens = 0
        turns: tuple[str, ...] = (text,)
        for _ in range(_ATTEMPTS):
            # The first answer may have used up what was left: the repair is paid from
            # the same limit.
            left = None if request.tokens_left is None else request.tokens_left - tokens
            if left is not None and left <= 0:
                return Consulted(tokens=tokens, codes=(FALLBACK, "TOKEN_LIMIT_REACHED"))
            reply = await self._reply(_question(prompt, turns, schema, request, left))
            # An adapter counts the tokens, and a negative count must not extend the
            # limit of the task.
            tokens += max(0, reply.tokens)
            if reply.obstacle is not None:
                return Consulted(tokens=tokens, codes=(FALLBACK, reply.obstacle))
            read = read_answer(reply.text, schema)
            if not read.fault:
                self._keep(key, read.document)
                return Consulted(
                    document=read.document,
                    tokens=tokens,
                    codes=(WITH_MODEL, prompt.label),
                )
            # The second turn has the question, the refused answer and its fault, and no
            # more.
            turns = (text, reply.text[:MAX_QUESTION], repair_question(read.fault))
        return Consulted(tokens=tokens, codes=(FALLBACK, "MODEL_ANSWER_REFUSED"))

    async def _reply(self, question: AgentQuestion) -> AgentReply:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._agent.ask(question)
        except TimeoutError:
            return AgentReply(obstacle="MODEL_TIMED_OUT")
        except Exception:  # noqa: BLE001 - a task never fails because of its model, whatever answers for that
            return AgentReply(obstacle="MODEL_FAILED")

    def _keep(self, key: str, document: dict[str, Any]) -> None:
        if len(self._answers) >= _KEPT_ANSWERS:
            # A dict keeps the order of insertion, so that this is the oldest answer.
            self._answers.pop(next(iter(self._answers)))
        self._answers[key] = document


def _question(
    skill: Skill,
    turns: tuple[str, ...],
    schema: dict[str, Any],
    request: PlanRequest,
    left: int | None,
) -> AgentQuestion:
    return AgentQuestion(
        skill=skill,
        turns=turns,
        schema=schema,
        classification=request.context.data_classification,
        trace_id=request.context.trace_id,
        max_tokens=_MAX_OUTPUT_TOKENS
        if left is None
        else min(_MAX_OUTPUT_TOKENS, left),
    )
