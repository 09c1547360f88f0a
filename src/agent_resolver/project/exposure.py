"""What a project does to this machine once its tools are opened."""

from agent_resolver.project.project import Project


def why_trust_is_needed(project: Project) -> str | None:
    """Why a person must trust the project's folder first, or None when nothing of this machine is at stake."""
    entries = project.lockfile.servers
    if any(entry.launch for entry in entries):
        return "its lock starts commands"
    # Whoever wrote the project chose both the secret and where it is sent.
    if any(entry.server_id in project.config.servers for entry in entries):
        return "its settings send secrets of this machine to servers"
    return None
