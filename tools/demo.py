"""Shows the product on its examples, in a copy under `build/demo`: each command, what it prints, how it ends.

1. `examples/hello-agent`: an agent file and an index become a lock and an explanation.
2. `examples/governed-agent`: the lock governs calls to a real MCP server, and the audit trail proves it.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "build" / "demo"


def say(text: str) -> None:
    """A heading."""
    print(f"\n## {text}\n", flush=True)


def show(folder: Path, *command: str, expected: int = 0) -> None:
    """Run a command as a person would type it, and insist on how it ends."""
    print(f"$ {' '.join(_quoted(word) for word in command)}", flush=True)
    done = subprocess.run(command, cwd=folder, env=_environment(), check=False)
    if done.returncode != expected:
        sys.exit(f"expected exit code {expected}, got {done.returncode}")
    if expected:
        print(f"(exit {expected}, as it should be)", flush=True)


def _quoted(word: str) -> str:
    return word if word.replace("-", "").replace(".", "").replace("_", "").replace("/", "").isalnum() else f"'{word}'"


def _environment() -> dict[str, str]:
    scripts = sysconfig.get_path("scripts")
    return {
        **os.environ,
        "PATH": os.pathsep.join([scripts, os.environ.get("PATH", "")]),
        "XDG_CONFIG_HOME": str(DEMO / "config"),
    }


def main() -> None:
    """Run both examples."""
    shutil.rmtree(DEMO, ignore_errors=True)
    shutil.copytree(ROOT / "examples", DEMO)
    hello, governed = DEMO / "hello-agent", DEMO / "governed-agent"

    say("What an agent needs becomes a lock, and every choice is explained")
    show(hello, "agent", "resolve", "--explain")
    show(hello, "cat", "agents.lock")
    show(hello, "cat", "agents.resolution.json")

    say("The lock governs the run: a real MCP server, started only because it is locked and trusted")
    show(governed, "agent", "resolve")
    show(governed, "agent", "trust-folder")
    show(governed, "agent", "tools", "list")

    say("A tool within the lock answers; tools outside it are refused and named")
    show(governed, "agent", "tools", "call", "notes.read_note", '{"name": "welcome"}')
    show(governed, "agent", "tools", "call", "notes.delete_note", '{"name": "welcome"}', expected=1)
    show(governed, "agent", "tools", "call", "notes.debug_dump", "{}", expected=1)

    say("One edited byte of a locked entry stops everything")
    lock = governed / "agents.lock"
    whole = lock.read_text(encoding="utf-8")
    lock.write_text(whole.replace("write:notes", "write:Notes", 1), encoding="utf-8")
    show(governed, "agent", "tools", "call", "notes.read_note", '{"name": "welcome"}', expected=1)
    lock.write_text(whole, encoding="utf-8")

    say("Every decision left a record, and the record is whole")
    show(governed, "agent", "audit", "show", "--last", "6")
    show(governed, "agent", "audit", "verify")


if __name__ == "__main__":
    main()
