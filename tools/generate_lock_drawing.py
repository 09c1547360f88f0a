"""Writes the pictures of the README, one for light pages and one for dark: the drawing of `examples/hello-agent`.

They are the drawing that `agent report` makes, with its own style and the colours of one theme filled in.
`--check` writes nothing, and fails if a picture is not what the report draws now.
"""

import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "hello-agent"
IMAGES = ROOT / "docs" / "images"
STYLE = ROOT / "src" / "agent_resolver" / "cli" / "report" / "template" / "style.css"
FONT = 'font-family: ui-sans-serif, system-ui, "Segoe UI", Roboto, sans-serif;'


def pictures() -> dict[Path, str]:
    """Maps each file to the picture that belongs in it."""
    drawing = _drawing(_report())
    style = STYLE.read_text(encoding="utf-8")
    # The style begins with the light theme and the dark one; further ones are for paper.
    light, dark, *_ = (_colours(block) for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL))
    rules = _rules(style)
    return {
        IMAGES / "lock-light.svg": _picture(drawing, rules, light),
        # A theme names only the colours that differ.
        IMAGES / "lock-dark.svg": _picture(drawing, rules, {**light, **dark}),
    }


def _report() -> str:
    """The page that the command writes about the example."""
    agent = Path(sysconfig.get_path("scripts"), "agent")
    with tempfile.TemporaryDirectory() as temporary:
        page = Path(temporary, "report.html")
        command = [str(agent), "report", "--output", str(page)]
        subprocess.run(command, cwd=EXAMPLE, check=True, stdout=subprocess.DEVNULL)
        return page.read_text(encoding="utf-8")


def _drawing(page: str) -> str:
    """The wide drawing of the page; the narrow one is for phones."""
    found = re.search(r'<svg class="drawing wide".*?\n</svg>', page, re.DOTALL)
    if found is None:
        sys.exit("the report has no wide drawing")
    return found.group()


def _colours(block: str) -> dict[str, str]:
    return {found.group(1): found.group(2) for found in re.finditer(r"--([\w-]+): (#\w+)", block)}


def _rules(style: str) -> str:
    """The rules of the page that concern drawings, and the font of code."""
    drawing = re.findall(r"^\.drawing [^{]*\{[^}]*\}", style, re.MULTILINE)
    code_font = re.search(r"font-family: ui-monospace[^;]*;", style)
    if code_font is None:
        sys.exit("the style of the report has no font for code")
    return "\n".join([f".drawing {{ {FONT} }}", f".word, .detail {{ {code_font.group()} }}", *drawing])


def _picture(drawing: str, rules: str, colours: dict[str, str]) -> str:
    """The drawing as a file of its own, in the colours of one theme."""
    filled = re.sub(r"var\(--([\w-]+)\)", lambda found: colours[found.group(1)], rules)
    opening, rest = drawing.split("\n", 1)
    opening = opening.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return f"{opening}\n<style>\n{filled}\n</style>\n{rest}\n"


def main() -> None:
    """Write the pictures, or compare them."""
    for path, picture in pictures().items():
        if "--check" not in sys.argv[1:]:
            path.write_text(picture, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != picture:
            sys.exit(f"{path.relative_to(ROOT)} is not what `agent report` draws")


if __name__ == "__main__":
    main()
