"""tmp"""

from agent_resolver.runtime.plan import ResolvedAgent


def plan_digest(agent: ResolvedAgent) -> str:
    return "sha256-tmp"
