"""An agent file that asks for one server."""


def keeper(limits: str = "") -> str:
    """The text of an agent file that asks to read files, with more lines of front matter behind that."""
    return f"""\
---
name: keeper
version: 1.0.0
requires:
  mcp:
    - category: files
      permissions: [read:files]
{limits}---
"""
