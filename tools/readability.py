"""Measure how readable the code and the texts are: `python tools/readability.py [--json] [--list] [FOLDER]`.

Prints one figure for each goal of the project, with the goal beside it. `--list` names every place
that misses a goal of its own, as a conditional expression inside a comprehension does. FOLDER narrows the code that is
measured, as in `src/agent_resolver/core`.
"""

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "agent_resolver"
GENERATED = {"cli.md", "reason-codes.md", "schemas.md", "settings.md"}
"""The pages that a `generate_*.py` beside this file writes: they are looked up, not read."""
MAX_TEST_NAME = 80

OPENING = re.compile(r"(What|Whether|How|Which|Who|Whose|Where|When|Why)\b")
VAGUE_PERSON = re.compile(
    r"\b(somebody|someone|whoever|nobody|anybody|anyone|everybody|everyone|no one)\b", re.IGNORECASE
)
NO_REASON = re.compile(r"#!|# (noqa|type:|mypy:|pragma|fmt:)|#.*-{10}")
"""Comments for tools, and the rulers between sections: they explain nothing."""
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.IfExp,
    ast.comprehension,
    ast.ExceptHandler,
    ast.Assert,
    ast.match_case,
)
OPENINGS = "docstrings that open with What, Whether, How, … (%)"
VAGUE = "vague persons per 1,000 words"
NESTED = "conditional expressions inside comprehensions"
SEVERAL = "statements with more than one conditional expression"
COMPLICATED = "functions of complexity over 10 without a stated reason"
MAX_COMPLEXITY = 10
REASON_FOR_COMPLEXITY = "# One function:"
"""The words that begin the comment above a function which is better left whole."""
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Source:
    """One file of code: its syntax tree, its texts, and which of its lines are code."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(text)
        self.docstrings = list(self._docstrings())
        self.comments: list[str] = []
        self.code_lines: set[int] = set()
        loose = self._lines_of_loose_strings()
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                if not NO_REASON.match(token.string):
                    self.comments.append(token.string)
            elif token.type not in LAYOUT and token.start[0] not in loose:
                self.code_lines.update(range(token.start[0], token.end[0] + 1))

    def _docstrings(self) -> Iterator[tuple[int, str]]:
        for node in ast.walk(self.tree):
            if isinstance(node, DOCUMENTED) and (found := ast.get_docstring(node)):
                yield (getattr(node, "lineno", 1), found)

    def _lines_of_loose_strings(self) -> set[int]:
        """The lines of strings that are statements: docstrings, and the descriptions below a value."""
        lines: set[int] = set()
        for node in ast.walk(self.tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return lines

    @property
    def nodes(self) -> int:
        """The nodes of the syntax tree, as `ast.walk` gives them."""
        return sum(1 for _ in ast.walk(self.tree))

    def strings(self) -> Iterator[str]:
        """Every text in the file: docstrings, messages, descriptions."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield node.value

    def conditionals_in_comprehensions(self) -> Iterator[int]:
        for node in ast.walk(self.tree):
            if isinstance(node, COMPREHENSIONS) and any(isinstance(inner, ast.IfExp) for inner in ast.walk(node)):
                yield node.lineno

    def statements_with_two_conditionals(self) -> Iterator[int]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt) and not hasattr(node, "body") and _conditionals(node) > 1:
                yield node.lineno

    def complex_functions(self) -> Iterator[tuple[int, str]]:
        """The functions with more branches than `MAX_COMPLEXITY` whose comment states no reason for it."""
        lines = self.text.splitlines()
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            complexity = _complexity(node)
            first_line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            comment = _comment_above(lines, first_line)
            if complexity > MAX_COMPLEXITY and REASON_FOR_COMPLEXITY not in comment:
                yield node.lineno, f"complexity {complexity}: {node.name}"


def _comment_above(lines: list[str], number: int) -> str:
    """The block of comment lines that ends right above the line of this number."""
    above: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not line.lstrip().startswith("#"):
            break
        above.insert(0, line.strip())
    return " ".join(above)


def _complexity(function: ast.AST) -> int:
    """One more than the places where a function branches, those in its comprehensions and inner functions included."""
    count = 1
    for node in ast.walk(function):
        if isinstance(node, BRANCHES):
            count += 1
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
    return count


def _conditionals(node: ast.AST) -> int:
    return sum(1 for inner in ast.walk(node) if isinstance(inner, ast.IfExp))


def _sources(folder: Path) -> list[Source]:
    return [Source(path) for path in sorted(folder.rglob("*.py"))]


def _nodes_per_line(sources: list[Source]) -> float:
    return sum(source.nodes for source in sources) / max(1, sum(len(source.code_lines) for source in sources))


def _words(text: str) -> int:
    return len(WORD.findall(text))


def _pages() -> list[Path]:
    return [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in GENERATED]


def _long_test_names() -> list[str]:
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name.startswith("test_") and len(node.name) >= MAX_TEST_NAME:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}")
    return found


def _own_places(source: Source) -> Iterator[tuple[str, int, str]]:
    """The places of one file that miss a goal of their own: the goal, the line and the problem."""
    for line, text in source.docstrings:
        if OPENING.match(text):
            yield OPENINGS, line, f"docstring opens with {text.split()[0]!r}"
    for line in source.conditionals_in_comprehensions():
        yield NESTED, line, "conditional expression inside a comprehension"
    for line in source.statements_with_two_conditionals():
        yield SEVERAL, line, "more than one conditional expression in a statement"
    for line, problem in source.complex_functions():
        yield COMPLICATED, line, problem
    for text in (*source.strings(), *source.comments):
        for found in VAGUE_PERSON.finditer(text):
            yield VAGUE, 1, f"{found.group()!r} in {' '.join(text.split())[:90]!r}"


def measure(folder: Path) -> tuple[dict[str, tuple[float, str]], list[str]]:
    """Measure the code in one folder, and the texts of the whole project.

    Returns:
        Each figure with its goal, and the places that miss a goal of their own.
    """
    sources = _sources(folder)
    places: list[str] = []
    counts: Counter[str] = Counter()
    for source in sources:
        for goal, line, problem in _own_places(source):
            counts[goal] += 1
            places.append(f"{source.path.relative_to(ROOT)}:{line}: {problem}")
    words = sum(_words(text) for source in sources for text in (*source.strings(), *source.comments))
    page_words = 0
    for page in [ROOT / "README.md", *_pages()]:
        text = page.read_text(encoding="utf-8")
        counts[VAGUE] += len(VAGUE_PERSON.findall(text))
        words += _words(text)
        page_words += len(text.split())
    long_names = _long_test_names()
    places += [f"{name}: too long" for name in long_names]
    docstrings = sum(len(source.docstrings) for source in sources)
    code_lines = sum(len(source.code_lines) for source in sources)
    comments = sum(len(source.comments) for source in sources)
    readme_words = len((ROOT / "README.md").read_text(encoding="utf-8").split())
    figures = {
        OPENINGS: (100 * counts[OPENINGS] / max(1, docstrings), "<= 10"),
        VAGUE: (1000 * counts[VAGUE] / max(1, words), "< 0.5"),
        "syntax nodes per line of code": (_nodes_per_line(sources), "<= 7.5"),
        "syntax nodes per line of code in core": (_nodes_per_line(_sources(PACKAGE / "core")), "<= 8"),
        NESTED: (counts[NESTED], "0"),
        SEVERAL: (counts[SEVERAL], "0"),
        COMPLICATED: (counts[COMPLICATED], "0"),
        "comments per 100 lines of code": (100 * comments / max(1, code_lines), ">= 6"),
        "words of docs without the reference": (page_words, "<= 45000"),
        "words of the README": (readme_words, "<= 900"),
        "test names of 80 characters and more": (len(long_names), "0"),
        "lines of code": (code_lines, ""),
    }
    return figures, places


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=PACKAGE, help="the code to measure")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--list", action="store_true", help="name the places")
    options = parser.parse_args()
    figures, places = measure(options.folder.resolve())
    if options.json:
        json.dump({name: round(figure, 2) for name, (figure, _) in figures.items()}, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    if options.list:
        sys.stdout.write("".join(f"{each}\n" for each in places))
    for name, (figure, goal) in figures.items():
        sys.stdout.write(f"{figure:>10,.2f}  {name}  {goal}\n")


if __name__ == "__main__":
    main()
