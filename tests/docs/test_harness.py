"""The test of the examples would notice if one were wrong."""

from pathlib import Path

import pytest

from tests.docs import page as pages
from tests.docs.example import outcomes, update
from tests.docs.page import kept, sections
from tests.docs.test_examples import report


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    return tmp_path / "page.md"


def reports(page: Path, text: str) -> list[str]:
    page.write_text(text, encoding="utf-8")
    return [report(outcome) for section in sections(page) for outcome in outcomes(section)]


def test_a_page_that_is_right_passes(page: Path) -> None:
    text = "<!-- project: new -->\n```console\n$ echo one; echo two >&2\none\ntwo\n$ false\n$ echo $?\n1\n```\n"

    assert reports(page, text) == [""]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<!-- project: new -->\n```console\n$ echo one\ntwo\n```\n", "-two\n+one"),
        ("<!-- project: new -->\n```console\n$ echo one\n```\n", "+one"),
        ("<!-- project: new -->\n```console\n$ true\none\n```\n", "-one"),
        ("<!-- project: new -->\n```console\n$ false\n```\n", "`false` exits 1, not 0"),
        ("<!-- project: new -->\n<!-- exit: 1 -->\n```console\n$ true\n```\n", "`true` exits 0, not 1"),
        ("```console\n$ true\n```\n", "say what this `console` block is"),
        ("```sh\ntrue\n```\n", "say what this `sh` block is"),
        ("```python\nprint(1)\n```\n\n<!-- output -->\n```text\n2\n```\n", "-2\n+1"),
        ("```yaml\nconstraint: {}\n```\n", "Unknown key"),
        ("```json\n[{}]\n```\n", "0.id: Required"),
        ("```markdown\n# No front matter\n```\n", "No front matter found"),
        ("<!-- project: new -->\n<!-- file: agents.lock -->\n```json\n{}\n```\n", "agentName: Required"),
        ("```toml\n[tool]\nadmit = []\n```\n", "tool: Unknown key"),
        ("<!-- project: new -->\n<!-- file: agent.toml -->\n```toml\nx = [\n```\n", "Invalid TOML"),
        ("<!-- not run: it is not YAML -->\n```yaml\na: b: c\n```\n", "Invalid YAML"),
    ],
)
def test_a_page_that_is_wrong_fails(page: Path, text: str, expected: str) -> None:
    assert expected in "\n".join(reports(page, text))


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        ("at [..] o'clock", "at 12:30 o'clock", True),
        ('{"at":"[..]","by":"[..]"}', '{"at":"12:30","by":"you"}', True),
        ("at [..]", "at ", False),
        ("at [..]", "at half past", False),
        ('{"at":"[..]"}', '{"at":"12:30","by":"you"}', False),
        ("at (12.30)", "at (12:30)", False),
        ("at [..]", "by 12:30", False),
    ],
)
def test_only_what_may_differ_differs(shown: str, printed: str, *, fits: bool) -> None:
    assert kept((shown,), [printed]) == [shown if fits else printed]


def test_lines_that_differ_from_run_to_run_keep_their_order() -> None:
    shown = ("first [..]", "same", "second [..]")

    assert kept(shown, ["first 1", "same", "second 2"]) == list(shown)
    assert kept(shown, ["second 2", "first 1"]) == ["second [..]", "first 1"]


def test_an_update_keeps_what_stands_for_something_else_every_time(page: Path) -> None:
    before = "<!-- project: new -->\n```console\n$ date; echo one\n[..] [..] [..] [..] UTC [..]\ntwo\n```\n"
    page.write_text(before.replace("date", "LC_ALL=C TZ=UTC date"), encoding="utf-8")

    assert update(page)
    assert page.read_text(encoding="utf-8").endswith("\n[..] [..] [..] [..] UTC [..]\none\n```\n")


@pytest.mark.parametrize("text", ["<!-- porject: new -->\n", "<!-- exit: 1 -->\nNo block.\n"])
def test_a_comment_that_says_nothing_is_refused(page: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"page\.md:"):
        reports(page, text)


def test_an_update_makes_a_page_right(page: Path) -> None:
    assert reports(page, "<!-- project: new -->\n```console\n$ printf 'a\\nb\\n'\nx\n```\n\nThe end.\n") != [""]

    assert update(page)
    assert page.read_text(encoding="utf-8").endswith("$ printf 'a\\nb\\n'\na\nb\n```\n\nThe end.\n")
    assert not update(page)
