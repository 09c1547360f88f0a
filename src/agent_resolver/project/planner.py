"""The planner of a project: the offline one, or one that asks a model where the rules leave something open."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import structs

from agent_resolver.core.constraint import RunLimits
from agent_resolver.project.session import Session
from agent_resolver.project.skill import LoadedSkill, load_skills, skill_folder
from agent_resolver.reasoner.planner.agent_port import AgentQuestion, AgentReply
from agent_resolver.reasoner.planner.model import BUILDER, ModelPlanner
from agent_resolver.reasoner.planner.offline import OfflinePlanner
from agent_resolver.reasoner.port import Planner
from agent_resolver.registry.pipeline import Ports
from agent_resolver.registry.port import Telemetry
from agent_resolver.runtime.agent_runtime import AgentRuntime
from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.errors import ConstraintBroken, ResolveError, RunRefused
from agent_resolver.runtime.inference import InferenceOverride
from agent_resolver.runtime.message import Message, assistant_message, user_message
from agent_resolver.runtime.run import RunRequest, RunResult
from agent_resolver.runtime.spec import AgentSpec
from agent_resolver.schema.classification import CLASSIFICATION_OF, Classification
from agent_resolver.schema.vocabulary import SENSITIVITY_RANK, Sensitivity

_ONE_ROUND: Final = RunBudget(max_rounds=1)
_REFUSED_SETTINGS: Final = "invalid_request"


def planner_of(
    session: Session,
    *,
    model: str | None = None,
    skills: str | None = None,
    telemetry: Telemetry | None = None,
) -> Planner:
    """The planner of a project. It is closed with `close_planner`.

    Args:
        session: The project.
        model: The model to ask; left out, `[reasoner] model` says it. Without either, the planner is the offline one.
        skills: The folder of the prompts; left out, `[reasoner] skills` says it, else they are those of the package.
        telemetry: Watches what the model is asked.

    Raises:
        InvalidSkills: A skill has a fault, such as a changed prompt with an old version.
        ResolveError: There is no such model, or nothing answers for it.
    """
    named = model or (session.config.reasoner.model or "")
    if not named:
        return OfflinePlanner()
    loaded = load_skills(skills or skill_folder(session), session.users)
    runtime = _runtime_of(session, loaded, named, telemetry)
    # A name that means no model is a fault of the settings. It is reported before a
    # task starts.
    runtime.resolve(BUILDER, is_dry_run=True)
    # Without an agent file, the project limits nothing beyond the data of the question.
    own = session.limits if session.has_agent else None
    limits = RunLimits() if own is None else RunLimits().narrowed_by(own)
    return ModelPlanner(
        RuntimeAgent(runtime, limits),
        {name: each.skill for name, each in loaded.items()},
    )


async def close_planner(planner: Planner) -> None:
    """Close a planner that is not asked any more, if it has anything to close."""
    close: Callable[[], Any] | None = getattr(planner, "close", None)
    if close is not None:
        await close()


def _runtime_of(
    session: Session,
    skills: Mapping[str, LoadedSkill],
    model: str,
    telemetry: Telemetry | None,
) -> AgentRuntime:
    """A runtime of nothing but the models of the project and the agents of the skills. Its runs are in memory alone."""
    # Only a project with a model needs what reads capabilities and plugins.
    from agent_resolver.project.plan import model_builder

    builder = model_builder(session).with_ports(Ports(telemetry=telemetry))
    for each in skills.values():
        builder.with_agent_spec(_without_tools(each.spec, model))
    return builder.build_unchecked()


def _without_tools(spec: AgentSpec, model: str) -> AgentSpec:
    """The agent of a skill with its model. It calls nothing, and answers once."""
    return structs.replace(
        spec,
        model_id=model,
        model_alternatives=(),
        allowed_tools=(),
        allowed_tool_patterns=(),
        max_continuation_retries=0,
        budget=_ONE_ROUND,
    )


class RuntimeAgent:
    """Asks an agent of the runtime. Each question is a run of its own, under the limits of the project's agent file."""

    def __init__(self, runtime: AgentRuntime, limits: RunLimits) -> None:
        self._runtime = runtime
        self._limits = limits

    async def ask(self, question: AgentQuestion) -> AgentReply:
        """The answer of the model, or why there is none: it may not see such data, or it did not answer."""
        # Temperature 0 keeps answers to the same question as alike as the model allows.
        exact = InferenceOverride(
            temperature=0,
            max_output_tokens=question.max_tokens,
            response_schema=question.schema,
        )
        try:
            result = await self._run(question, exact)
            if result.termination.code == _REFUSED_SETTINGS:
                # Some models take no temperature, and some providers no schema. The
                # answer is checked in any case.
                result = await self._run(
                    question, InferenceOverride(max_output_tokens=question.max_tokens)
                )
        except ConstraintBroken:
            # The model is not admitted for data of this kind, so nothing was sent to
            # it.
            return AgentReply(obstacle="MODEL_NOT_ADMITTED")
        except (ResolveError, RunRefused):
            return AgentReply(obstacle="MODEL_FAILED")
        tokens = result.usage.total_tokens
        if result.termination.reason != "natural_end":
            return AgentReply(tokens=tokens, obstacle="MODEL_FAILED")
        return AgentReply(text=result.text, tokens=tokens)

    async def close(self) -> None:
        """Close what answers for the model."""
        await self._runtime.close()

    async def _run(
        self, question: AgentQuestion, override: InferenceOverride
    ) -> RunResult:
        data = RunLimits(sensitivity=_sensitivity_of(question.classification))
        request = RunRequest(
            agent_id=question.skill.name,
            messages=tuple(
                _message(place, words) for place, words in enumerate(question.turns)
            ),
            # Both count: the constraints of the agent file, and the class of the data
            # in this question.
            limits=self._limits.joined(data),
            trace_id=question.trace_id,
            override=override,
        )
        return await self._runtime.run(request)


def _message(place: int, words: str) -> Message:
    # Turns alternate, and the first one is the question.
    is_asked = place % 2 == 0
    return user_message(words) if is_asked else assistant_message(words)


def _sensitivity_of(level: Classification) -> Sensitivity:
    """The most sensitive data of a classification: a model has to be admitted for all of it."""
    named = [name for name in SENSITIVITY_RANK if CLASSIFICATION_OF[name] == level]
    return max(named, key=SENSITIVITY_RANK.__getitem__)
