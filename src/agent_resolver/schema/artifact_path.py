"""The paths of the files that stand beside an agent file and are made from it: `agents.md` has `agents.lock`."""

_AGENT_FILE = ".md"
_LOCK = ".lock"


def lock_path_of(agent_path: str) -> str:
    """The path of the lock of an agent file, unless the operator names another."""
    return _stem_of(agent_path) + _LOCK


def explanation_path_of(agent_path: str) -> str:
    """The path of the explanation of an agent file, unless the operator names another."""
    return f"{_stem_of(agent_path)}.resolution.json"


def report_path_of(agent_path: str) -> str:
    """The path of the report of an agent file, unless the operator names another."""
    return f"{_stem_of(agent_path)}.report.html"


def agent_path_of(lock_path: str) -> str:
    """The path of the agent file that a lock was made from, if it stands beside it."""
    return lock_path.removesuffix(_LOCK) + _AGENT_FILE


def _stem_of(agent_path: str) -> str:
    return agent_path.removesuffix(_AGENT_FILE)
