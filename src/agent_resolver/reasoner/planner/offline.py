"""The planner that needs no model."""

from agent_resolver.reasoner.planner.builder import build_plan
from agent_resolver.reasoner.planner.classifier import ToolManifest, classify
from agent_resolver.reasoner.planner.remedy import apply_remedies
from agent_resolver.schema.planning import AuditAdvice, Classified, Drafted, PlanRequest


class OfflinePlanner:
    """Plans by the words, the schemas and the promises of tools alone; the same request always has the same answer."""

    async def classify(self, request: PlanRequest) -> Classified:
        """Find the tools for each clause of a request, and what no tool does."""
        return classify(request)

    async def build(self, request: PlanRequest) -> Drafted:
        """Draft a blueprint that passes the check, change a rejected one, or ask for what is missing."""
        manifest = ToolManifest(request.tools)
        drafted = build_plan(request, manifest)
        return (
            drafted
            if request.draft is None
            else apply_remedies(request, drafted, manifest)
        )

    async def audit(self, request: PlanRequest) -> AuditAdvice:  # noqa: ARG002 - the port asks a planner about a draft
        """Nothing: whatever can be said about a draft without a model, the rules of Ops say."""
        return AuditAdvice()
