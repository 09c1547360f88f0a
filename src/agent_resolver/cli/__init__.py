"""The `agent` command."""

from agent_resolver.cli.app import main

__all__ = ["main"]
