"""`agent report`: a page that is safe to open, whoever wrote the files that it is made from."""

import json
import os
import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from agent_resolver.cli.report import page as report_page
from tests.browser import sample
from tests.cli.conftest import edit
from tests.conftest import Run

STYLE = Path(report_page.__file__).with_name("template").joinpath("style.css").read_text()
EMPTY = {"meta", "wbr", "path", "circle", "rect", "br", "link"}


class Page(HTMLParser):
    """What stands in a page; refuses one whose elements do not close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs)
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words += data

    def values(self, attribute: str) -> list[str]:
        return [found for _, attributes in self.elements if (found := attributes.get(attribute)) is not None]

    def said(self) -> str:
        return " ".join(self.words.split())


def read(path: str = "agents.report.html") -> Page:
    return Page(Path(path).read_text(encoding="utf-8"))


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path], Path]], Path]:
    """Makes a project and goes there."""

    def make(project: Callable[[Path], Path]) -> Path:
        folder = project(tmp_path / "sample")
        monkeypatch.chdir(folder)
        return folder

    return make


Inside = Callable[[Callable[[Path], Path]], Path]


def failing(folder: Path) -> Path:
    return sample.support_desk(folder, failing=True)


def resolved(folder: Path) -> Path:
    return sample.support_desk(folder, failing=False)


SAMPLES = {"resolved": resolved, "failing": failing, "fifty": sample.fifty, "hostile": sample.hostile}


def test_a_page_is_written_once_and_then_left_alone(project: Path, run: Run) -> None:
    first, second = run("report"), run("report")

    assert (first.code, first.stdout, first.stderr) == (0, "✓ Wrote agents.report.html\n", "")
    assert (second.code, second.stdout) == (0, "✓ Wrote agents.report.html (unchanged)\n")


def test_the_page_is_beside_the_agent_file_or_where_one_wants_it(project: Path, run: Run) -> None:
    (project / "agents").mkdir()
    (project / "agents.md").rename(project / "agents" / "daily.md")

    assert run("report", "-a", "agents/daily.md").stdout == "✓ Wrote agents/daily.report.html\n"
    assert run("report", "-a", "agents/daily.md", "-o", "review/page.html").code == 0
    assert (project / "review" / "page.html").read_bytes() == (project / "agents" / "daily.report.html").read_bytes()
    assert "agent report --agents daily.md --index ../mcp.index.json" in read("review/page.html").words


def test_a_page_of_a_failure_is_written_and_the_answer_is_no(inside: Inside, run: Run) -> None:
    inside(failing)

    ran = run("report")

    assert (ran.code, ran.stdout) == (1, "✓ Wrote agents.report.html\n")
    assert ran.stderr == "Resolution failed: no candidates for categories: calendar, payments\n"
    assert "2 of 5 requirements have no server" in read().said()


@pytest.mark.parametrize(("make", "success"), [(resolved, True), (failing, False)])
def test_the_result_as_json(inside: Inside, run: Run, make: Callable[[Path], Path], *, success: bool) -> None:
    inside(make)

    ran = run("report", "--json")

    assert ran.code == (0 if success else 1)
    assert ran.stderr == ""
    assert json.loads(ran.stdout) == {
        "success": success,
        "path": "./agents.report.html",
        "status": "written",
        "resolved": success,
        "lock": "missing",
        "warnings": [],
    }
    assert json.loads(run("report", "--json").stdout)["status"] == "unchanged"


def test_a_misspelt_constraint_stands_on_the_page_too(project: Path, run: Run) -> None:
    agents = project / "agents.md"
    agents.write_text(agents.read_text().replace("residency:", "residence:"))

    assert "warning: constraints.data.residence: Unknown key" in run("report").stderr
    assert "1 warning about the agent file" in read().said()
    assert json.loads(run("report", "--json").stdout)["warnings"][0]["path"] == "constraints.data.residence"


@pytest.mark.parametrize("content", ["<!doctype html>\n<html lang='en'>\n<head>\n", "{}", "content agent report"])
def test_a_file_of_somebody_else_is_never_overwritten(project: Path, run: Run, content: str) -> None:
    (project / "agents.report.html").write_text(content)

    ran = run("report")

    assert ran.code == 1
    assert "`./agents.report.html` exists and was not written by `agent report`" in ran.stderr
    assert (project / "agents.report.html").read_text() == content


def test_a_page_of_ours_is_known_even_when_its_policy_changed(project: Path, run: Run) -> None:
    run("report")
    page = project / "agents.report.html"
    page.write_text(page.read_text().replace("base-uri 'none'", "").replace("</main>", "an edit</main>"))

    assert run("report").code == 0
    assert "an edit" not in page.read_text()


@pytest.mark.parametrize("option", ["agents.md", "./mcp.index.json", "agents.lock", "link.html"])
def test_an_input_is_never_the_output(project: Path, run: Run, option: str) -> None:
    (project / "link.html").symlink_to("agents.md")
    before = (project / "agents.md").read_bytes()

    ran = run("report", "--output", option)

    assert ran.code == 2
    assert "which it is made from" in ran.stderr
    assert (project / "agents.md").read_bytes() == before
    assert not (project / "agents.lock").exists()


@pytest.mark.parametrize(("option", "code"), [("--agents", 2), ("--index", 2)])
def test_a_missing_input_writes_no_page(project: Path, run: Run, option: str, code: int) -> None:
    assert run("report", option, "nowhere.md").code == code
    assert not list(project.glob("*.html"))


@pytest.mark.parametrize("name", SAMPLES)
def test_the_page_is_whole_and_in_order(inside: Inside, run: Run, name: str) -> None:
    inside(SAMPLES[name])
    run("report")
    page = read()
    ids = page.values("id")
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    named = [value for attribute in ("aria-labelledby", "aria-describedby") for value in page.values(attribute)]

    assert len(set(ids)) == len(ids)
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert {href.removeprefix("#") for href in page.values("href")} <= set(ids)
    assert set(named) <= set(ids)
    assert [tag for tag, attributes in page.elements if tag == "th" and "scope" not in attributes] == []


@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_of_a_file_becomes_markup_or_leads_anywhere(inside: Inside, run: Run, name: str) -> None:
    inside(SAMPLES[name])
    run("report")
    page = read()
    names = {attribute for _, attributes in page.elements for attribute in attributes}

    assert {"script", "img", "iframe", "object", "form", "base", "link", "b", "i"} & {
        tag for tag, _ in page.elements
    } == set()
    assert [attribute for attribute in names if attribute.startswith("on") or attribute in {"src", "style"}] == []
    assert [href for href in page.values("href") if not href.startswith("#")] == []
    assert re.findall(r"url\(|@import", STYLE) == []


def test_hostile_names_are_shown_to_the_letter_and_kept_apart(inside: Inside, run: Run) -> None:
    inside(sample.hostile)
    run("report")
    text = Path("agents.report.html").read_text(encoding="utf-8")

    assert sample.MARKUP + sample.LONG in read().words
    assert sample.HAN in read().words
    assert re.findall("[\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text) == []
    assert '<span class="hidden-character">U+202E</span>' in text
    assert re.search("<h3[^>]*>.*<bdi><span class=.hidden-character.>U.202E</span>.*abc</bdi></span></h3>", text)


def test_the_policy_lets_in_this_style_and_nothing_else(project: Path, run: Run) -> None:
    run("report")
    text = Path("agents.report.html").read_text(encoding="utf-8")
    style = text.partition("<style>")[2].partition("</style>")[0]
    digest = b64encode(sha256(style.encode()).digest()).decode()

    assert f"default-src 'none'; style-src 'sha256-{digest}'" in text
    assert text.index("Content-Security-Policy") < text.index("<style>")


@pytest.mark.parametrize("name", ["failing", "hostile"])
def test_the_same_files_give_the_same_page_everywhere(inside: Inside, name: str) -> None:
    folder = inside(SAMPLES[name])
    index = json.loads((folder / "mcp.index.json").read_bytes())
    pages = set()
    for seed, order in (("0", 1), ("1", -1), ("4294967295", 1)):
        (folder / "mcp.index.json").write_text(json.dumps(index[::order]))
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo", "SOURCE_DATE_EPOCH": seed}
        command = [sys.executable, "-m", "agent_resolver", "report", "-o", f"{seed}.html"]
        assert subprocess.run(command, env=environment, check=False, capture_output=True).returncode == 1
        pages.add((folder / f"{seed}.html").read_bytes())

    assert len(pages) == 1


def test_the_page_does_not_say_where_it_was_made(project: Path, run: Run) -> None:
    run("resolve")
    run("report")
    index, lock = project / "mcp.index.json", project / "agents.lock"
    run("report", "-a", str(project / "agents.md"), "-i", str(index), "--lock", str(lock), "-o", "absolute.html")
    elsewhere = project.parent / "elsewhere.json"
    elsewhere.write_bytes(index.read_bytes())
    run("report", "-a", str(project / "agents.md"), "-i", str(elsewhere), "-o", "elsewhere.html")

    assert Path("absolute.html").read_bytes() == Path("agents.report.html").read_bytes()
    assert str(project.parent) not in Path("elsewhere.html").read_text()
    assert "--index elsewhere.json" in read("elsewhere.html").words


def test_a_large_index_gives_a_page_that_still_opens(inside: Inside, run: Run) -> None:
    inside(sample.large)

    assert run("report").code == 0

    size, said = Path("agents.report.html").stat().st_size, read().said()
    assert size < 250_000
    assert said.count("4,799 more candidates rejected") == 3
    assert "2,500 RESIDENCY_MISMATCH" in said


def test_every_constraint_is_named_whether_it_is_there_or_not(inside: Inside, project: Path, run: Run) -> None:
    run("report")
    plain = read().said()
    inside(resolved)
    run("report")
    strict = read().said()

    assert "Signed serversNot constrained" in plain
    assert "Forbidden actionsNot constrained" in plain
    assert "Signed serversRequired" in strict
    assert "Residencyeu-only" in strict
    assert "delete:*" in strict


def test_a_section_tells_what_is_granted_offered_and_open(inside: Inside, run: Run) -> None:
    inside(resolved)
    run("report")
    said = read().said()

    assert "Offered, not granteddelete:customers" in said
    assert "Tools: 2 of 3 open" in said
    assert "Refused. Agent forbids 'delete:*' which matches 'delete:customers'" in said
    assert "Started asuvx kb-server --root docs/kb" in said
    assert "KB_TOKEN" in said
    assert "Selected by tie-break: signed, id='crm-core'" in said
    assert "LOST_TIE_BREAK" in said


def test_what_the_drawing_says_stands_in_a_table(inside: Inside, run: Run) -> None:
    inside(failing)
    run("report")
    text = Path("agents.report.html").read_text(encoding="utf-8")
    overview = text.partition('<section id="overview"')[2].partition("</section>")[0]
    drawn = re.findall(r"<text [^>]*>([^<]*)</text>", overview.partition("</figure>")[0])
    written = re.sub("<[^>]*>", "", overview.partition("</figure>")[2])

    assert {"customers", "calendar", "crm-core@1.4.0", "signed (claimed), eu-only", "No server"} <= set(drawn)
    for word in ("customers", "calendar", "crm-core@1.4.0", "signed (claimed), eu-only", "No server", "read:events"):
        assert word in written


LOCKS: dict[str, tuple[Callable[[bytes], bytes], tuple[str, ...]]] = {
    "as written": (lambda raw: raw, ("agents.lock holds",)),
    "for another agent": (
        lambda raw: raw.replace(b'"1.0.0"', b'"0.9.0"', 1),
        ("agents.lock does not hold", "agent-changed", "What to do:"),
    ),
    "reformatted": (lambda raw: raw.replace(b"  ", b"    "), ("does not hold", "format-edited")),
    "of another tool": (lambda _: b"[agents]\n", ("does not hold", "It was not written by agent resolve")),
    "half a file": (lambda raw: raw[:80], ("does not hold",)),
}


@pytest.mark.parametrize("name", LOCKS)
def test_the_state_of_the_lock_is_told(project: Path, run: Run, name: str) -> None:
    change, words = LOCKS[name]
    run("resolve")
    lock = project / "agents.lock"
    lock.write_bytes(change(lock.read_bytes()))

    assert run("report").code == 0

    said = read().said()
    for expected in words:
        assert expected in said


def test_a_lock_that_is_missing_or_no_file_is_told_too(project: Path, run: Run) -> None:
    run("report")
    missing = read().said()
    (project / "agents.lock").mkdir()
    run("report")

    assert "agents.lock is missing" in missing
    assert "agents.lock cannot be read as a file" in read().said()


@pytest.mark.parametrize("name", [name for name in LOCKS if name != "as written"])
def test_no_page_is_green_over_a_lock_that_does_not_hold(project: Path, run: Run, name: str) -> None:
    lock = project / "agents.lock"
    run("resolve")
    run("report")
    holding = read_verdict()
    lock.write_bytes(LOCKS[name][0](lock.read_bytes()))
    run("report")
    differing = read_verdict()
    lock.unlink()
    run("report")
    missing = read_verdict()

    assert holding == ("good", "Every requirement has a serveragents.lock holds.")
    assert differing == (
        "warn",
        "Every requirement has a server, but agents.lock does not holdNo tool may be called until the lock holds.",
    )
    assert missing == (
        "warn",
        "Every requirement has a server, but agents.lock is missingNo tool may be called until the lock holds.",
    )


def read_verdict() -> tuple[str, str]:
    """The colour of the page's first sentence, and its words."""
    text = Path("agents.report.html").read_text(encoding="utf-8")
    found = re.search(r'<p class="verdict (\w+)">(.*)</p>', text)
    assert found
    return found[1], re.sub("<[^>]*>", "", found[2])


def test_a_page_never_says_that_a_server_is_signed_without_saying_who_says_so(project: Path, run: Run) -> None:
    run("report")
    text = Path("agents.report.html").read_text(encoding="utf-8")
    said = read().said()

    assert "SignedClaimed, not checked" in said
    assert "signed (claimed), us-only" in said
    assert 'class="tick"' not in text


def test_a_page_notes_a_server_that_promises_no_region(project: Path, run: Run) -> None:
    edit(project / "mcp.index.json", '["us-only"]', '["any"]')
    run("report")

    assert read().said().count("Accepted, though it promises no region.") == 1


def test_a_lock_that_keeps_another_server_is_no_secret(project: Path, run: Run) -> None:
    run("resolve")
    index = project / "mcp.index.json"
    servers = json.loads(index.read_bytes())
    index.write_text(json.dumps([*servers, {**servers[0], "id": "a-first"}]))
    run("report")
    said = read().said()

    assert "agents.lock holds" in said
    assert "It keeps other servers than would be chosen now" in said
    assert "a-first@" in said


def test_the_page_names_the_lock_that_resolve_writes(project: Path, run: Run) -> None:
    run("report")
    promised = read().words
    run("resolve")

    assert sha256((project / "agents.lock").read_bytes()).hexdigest() in promised


def test_advice_is_a_list_of_sentences(inside: Inside, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    inside(failing)
    monkeypatch.setattr(report_page, "_describe_suggestions", lambda _: ("Allow `us-only` & <more>",))
    run("report")
    text = Path("agents.report.html").read_text(encoding="utf-8")

    assert '<h2 id="advice-title">What would make it resolve</h2>' in text
    assert "<li><bdi>Allow <code>us-only</code> &amp; &lt;more&gt;</bdi></li>" in text
    assert read().values("href").count("#advice") == 1


def tokens(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{3,6});", block))


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", [0, 1, 2], ids=["light", "dark", "print"])
def test_text_and_lines_stand_out_in_the_drawing_too(scheme: int) -> None:
    """What checks a page in a browser does not look at the colours inside a drawing."""
    colours = [tokens(block) for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)][scheme]
    surfaces = [colours[name] for name in ("paper", "surface", "tint")]

    for ink in ("ink", "muted", "accent", "good", "bad"):
        assert min(contrast(colours[ink], surface) for surface in surfaces) >= 4.5
    for state in ("good", "bad", "warn"):
        assert contrast(colours[state], colours[f"{state}-tint"]) >= 4.5
    assert contrast(colours["surface"], colours["ink"]) >= 4.5
    assert contrast(colours["edge"], colours["surface"]) >= 3
