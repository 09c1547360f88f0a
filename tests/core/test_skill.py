"""Skills: what a prompt must look like, and that a change of it takes a new version."""

import pytest

from agent_resolver.core.skill import SkillReading, read_skill, read_skill_changelog, skill_digest, skill_faults
from agent_resolver.schema.issue import IssueCode
from agent_resolver.schema.skill import SKILL_TAGS, Skill

HEADER = "---\nname: builder\ndescription: Plans\nversion: 1.0.0\n---\n"
BODY = "".join(f"<{tag}>\nwords\n</{tag}>\n\n" for tag in SKILL_TAGS)


def read(header: str = HEADER, body: str = BODY) -> SkillReading:
    return read_skill(f"{header}{body}".encode())


def skill(version: str = "1.0.0") -> Skill:
    found = read(HEADER.replace("1.0.0", version)).skill
    assert found is not None
    return found


def section(of: Skill, digest: str | None = None, words: str = "- First.") -> str:
    shown = of.digest if digest is None else digest
    return f"## {of.name} {of.version}\n\nDigest: `{shown}`\n\n{words}\n\n"


def codes(of: Skill, changelog: str) -> list[IssueCode]:
    return [issue.code for issue in skill_faults(of, read_skill_changelog(changelog))]


def test_a_skill_has_a_name_a_version_and_a_body() -> None:
    reading = read()

    assert reading.issues == ()
    assert reading.skill is not None
    assert (reading.skill.label, reading.skill.description) == ("builder@1.0.0", "Plans")
    assert reading.skill.body == BODY.strip()


def test_the_digest_does_not_depend_on_line_ends() -> None:
    raw = f"{HEADER}{BODY}".encode()

    assert skill_digest(raw.replace(b"\n", b"\r\n")) == skill_digest(raw) != skill_digest(raw + b"more")


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"\xff\xfe", IssueCode.ENCODING),
        (b"no front matter", IssueCode.FRONT_MATTER),
        (b"---\nname: [\n---\n", IssueCode.SYNTAX),
        (b"---\nname: builder\nversion: 1.0.0\n---\n", IssueCode.REQUIRED),
        (HEADER.replace("description", "tools: all\ndescription").encode(), IssueCode.UNKNOWN_KEY),
    ],
)
def test_a_file_without_usable_front_matter_is_not_a_skill(raw: bytes, code: IssueCode) -> None:
    reading = read_skill(raw)

    assert reading.skill is None
    assert code in [issue.code for issue in reading.issues]


def test_a_skill_may_limit_the_data_that_it_is_shown() -> None:
    limited = HEADER.replace("version", "constraints: { data: { sensitivity: internal } }\nversion")

    assert read(limited).issues == ()


def test_a_version_that_is_not_semantic_is_a_fault() -> None:
    (fault,) = read(HEADER.replace("1.0.0", "'1'")).issues

    assert (fault.code, fault.path) == (IssueCode.VERSION_NOT_SEMANTIC, "version")


@pytest.mark.parametrize("tag", SKILL_TAGS)
def test_every_tag_is_opened_and_closed(tag: str) -> None:
    for mark in (f"<{tag}>", f"</{tag}>"):
        (fault,) = read(body=BODY.replace(f"{mark}\n", "", 1)).issues

        assert (fault.code, fault.message) == (IssueCode.REQUIRED, f"The body has no line `{mark}`")


def test_a_tag_that_is_there_twice_is_a_fault_with_its_line() -> None:
    (fault,) = read(body=f"{BODY}<system_role>\n").issues

    assert (fault.code, fault.message) == (IssueCode.FORM, "`<system_role>` is there twice")
    assert fault.line == f"{HEADER}{BODY}".count("\n") + 1


def test_tags_out_of_order_are_a_fault_that_says_what_belongs_there() -> None:
    first, second, *_ = SKILL_TAGS
    swapped = BODY.replace(first, "other").replace(second, first).replace("other", second)

    (fault,) = read(body=swapped).issues

    assert (fault.message, fault.hint) == (f"`<{second}>` is out of order", f"`<{first}>` belongs here")
    assert fault.line == HEADER.count("\n") + 1


def test_a_tag_inside_a_sentence_is_only_a_word() -> None:
    assert read(body=f"{BODY}The tag <system_role> comes first.\n").issues == ()


# The changelog --------------------------------------------------------------------------------------------------------


def test_a_skill_that_is_as_its_changelog_says_has_no_fault() -> None:
    newest, older = skill("1.1.0"), skill("1.0.0")

    assert codes(newest, f"# Skills\n\n{section(newest)}{section(older)}") == []


def test_a_changed_prompt_with_an_old_version_is_a_fault_that_says_what_to_do() -> None:
    changed = read(body=BODY.replace("words", "other words", 1)).skill
    assert changed is not None

    (fault,) = skill_faults(changed, read_skill_changelog(section(skill())))

    assert fault.code is IssueCode.CONTRADICTION
    assert fault.message == "The prompt of builder changed, and its version is still 1.0.0"
    assert fault.hint.startswith("raise `version`")


def test_a_version_without_a_section_is_a_fault() -> None:
    (fault,) = skill_faults(skill(), ())

    assert fault.message == "The changelog has no section `## builder 1.0.0`"
    assert codes(skill(), section(skill("0.9.0"))) == [IssueCode.REQUIRED]


def test_a_version_below_a_newer_one_is_a_fault() -> None:
    assert codes(skill("1.0.0"), section(skill("1.1.0")) + section(skill("1.0.0"))) == [IssueCode.CONTRADICTION]


def test_a_section_has_one_digest_and_says_what_changed() -> None:
    own = skill()

    assert codes(own, section(own, digest="")) == [IssueCode.REQUIRED]
    assert codes(own, section(own, words="")) == [IssueCode.EMPTY]
    assert codes(own, section(own) + section(own)) == [IssueCode.DUPLICATE_KEY]


def test_sections_know_their_line() -> None:
    own = skill()

    assert [version.line for version in read_skill_changelog(f"# Skills\n\n{section(own)}{section(own)}")] == [3, 9]
