"""`python -m agent_resolver`."""

from agent_resolver.cli import entry

if __name__ == "__main__":
    entry()
