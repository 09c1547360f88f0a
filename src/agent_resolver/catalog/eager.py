"""Folders whose agent files a client loads whole by itself, so that serving them saves nothing."""

import os
from typing import Final

_EAGER: Final = {
    ".claude/agents": "Claude Code",
    ".codex/agents": "Codex",
    ".cursor/agents": "Cursor",
    ".gemini/agents": "Gemini CLI",
    ".github/agents": "GitHub Copilot",
    ".opencode/agent": "OpenCode",
    ".opencode/agents": "OpenCode",
}


def eager_client(root: str) -> str | None:
    """The client that loads this folder, or one below it, whole by itself."""
    place = f"{os.path.realpath(root).replace(os.sep, '/')}/"
    return next((client for folder, client in _EAGER.items() if f"/{folder}/" in place), None)
