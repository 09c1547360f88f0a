from agent_resolver.reasoner.acceptance import (
    InProcessAcceptance as InProcessAcceptance,
)
from agent_resolver.reasoner.acceptance_conformance import (
    ACCEPTANCE_CHECKS as ACCEPTANCE_CHECKS,
    AcceptanceCheck as AcceptanceCheck,
)
from agent_resolver.reasoner.acceptance_process import (
    AcceptanceBounds as AcceptanceBounds,
    IsolatedAcceptance as IsolatedAcceptance,
)
from agent_resolver.reasoner.artifact import Artifacts as Artifacts
from agent_resolver.reasoner.checkpoint import StoreSaver as StoreSaver
from agent_resolver.reasoner.context_binder import (
    bind_context as bind_context,
    missing_claims as missing_claims,
)
from agent_resolver.reasoner.context_conformance import (
    HEALTH_CHECKS as HEALTH_CHECKS,
    RETRIEVER_CHECKS as RETRIEVER_CHECKS,
    HealthCheck as HealthCheck,
    MakeHealth as MakeHealth,
    MakeRetriever as MakeRetriever,
    RetrieverCheck as RetrieverCheck,
)
from agent_resolver.reasoner.errors import (
    DamagedTask as DamagedTask,
    RefusedEnvironment as RefusedEnvironment,
    TaskLost as TaskLost,
    TaskRefused as TaskRefused,
    TaskTaken as TaskTaken,
    UnknownTask as UnknownTask,
)
from agent_resolver.reasoner.evaluation import evaluate_planner as evaluate_planner
from agent_resolver.reasoner.graph import (
    GateAnswer as GateAnswer,
    recursion_limit as recursion_limit,
)
from agent_resolver.reasoner.knowledge_budget import (
    MAX_HEALTH_CHARACTERS as MAX_HEALTH_CHARACTERS,
    MAX_SNIPPET_TOKENS as MAX_SNIPPET_TOKENS,
    MAX_SNIPPETS as MAX_SNIPPETS,
    bounded_snippets as bounded_snippets,
    health_summary as health_summary,
    measured_snippet as measured_snippet,
)
from agent_resolver.reasoner.memory import (
    MemoryHealth as MemoryHealth,
    MemoryRetriever as MemoryRetriever,
)
from agent_resolver.reasoner.planner.agent_port import (
    AgentQuestion as AgentQuestion,
    AgentReply as AgentReply,
    AskAgent as AskAgent,
)
from agent_resolver.reasoner.planner.model import ModelPlanner as ModelPlanner
from agent_resolver.reasoner.planner.offline import OfflinePlanner as OfflinePlanner
from agent_resolver.reasoner.planner_conformance import (
    PLANNER_CHECKS as PLANNER_CHECKS,
    MakePlanner as MakePlanner,
    PlannerCheck as PlannerCheck,
)
from agent_resolver.reasoner.port import (
    HEALTH_STATES as HEALTH_STATES,
    AcceptanceRun as AcceptanceRun,
    AcceptanceRunner as AcceptanceRunner,
    Health as Health,
    HealthReport as HealthReport,
    Planner as Planner,
    Retriever as Retriever,
)
from agent_resolver.reasoner.sealed_serializer import (
    SealedSerializer as SealedSerializer,
)
from agent_resolver.reasoner.stage_telemetry import StageTelemetry as StageTelemetry
from agent_resolver.reasoner.task_context import (
    Needed as Needed,
    ReasonerPorts as ReasonerPorts,
    Surface as Surface,
    TaskContext as TaskContext,
)
from agent_resolver.reasoner.task_view import TaskView as TaskView
from agent_resolver.reasoner.tasks import (
    TaskHome as TaskHome,
    TaskRequest as TaskRequest,
    Tasks as Tasks,
)
from agent_resolver.reasoner.update import Update as Update
