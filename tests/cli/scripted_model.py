"""A model for tests of the command line: it says what a file says."""

import json
from pathlib import Path
from typing import Any

CONFIG = """\
[providers.script]
adapter = "scripted"
base_url = "script.json"

[models.default]
provider = "script"
"""


def asking(tool: str, text: str = "", **arguments: Any) -> dict[str, Any]:
    """An answer that asks for a call; `tool` is its name on the wire."""
    usage = {"input_tokens": 20, "output_tokens": 5}
    return {"text": text, "calls": [{"name": tool, "arguments": arguments}], "usage": usage}


def saying(text: str) -> dict[str, Any]:
    """An answer in words."""
    return {"text": text, "usage": {"input_tokens": 10, "output_tokens": 2}}


def write_script(folder: Path, *answers: dict[str, Any]) -> None:
    """Let the model give these answers, one after the other, in each process that asks it."""
    (folder / "script.json").write_text(json.dumps(answers), encoding="utf-8")
