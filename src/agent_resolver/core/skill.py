"""Reads skills, and finds what is wrong with them: a changed prompt needs a new version and a word about the change."""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from agent_resolver.core.semantic_version import is_semantic_version
from agent_resolver.schema.front_matter import split
from agent_resolver.schema.issue import Issue, IssueCode
from agent_resolver.schema.skill import SKILL_TAGS, Skill, SkillHeader, SkillVersion
from agent_resolver.schema.source import Unreadable, decode
from agent_resolver.schema.tree import plain
from agent_resolver.schema.walker import walk
from agent_resolver.schema.yaml_tree import parse_yaml

_TAG: Final = re.compile(
    rf"^[ \t]*<(?P<end>/?)(?P<name>{'|'.join(SKILL_TAGS)})>[ \t]*$", re.MULTILINE
)
_MARKS: Final = [mark for tag in SKILL_TAGS for mark in (f"<{tag}>", f"</{tag}>")]
"""The lines that open and close each tag, in the order of the standard."""
_SECTION: Final = re.compile(
    r"^##[ \t]+(?P<name>\S+)[ \t]+(?P<version>\S+)[ \t]*$", re.MULTILINE
)
_DIGEST: Final = re.compile(r"sha256-[0-9a-f]{64}")
_WORDS: Final = re.compile(r"^[ \t]*[-*][ \t]+\S", re.MULTILINE)


class SkillReading(Struct, frozen=True, kw_only=True):
    """The file of a skill, and every fault of it."""

    skill: Skill | None = None
    """None if its front matter cannot be used."""
    issues: tuple[Issue, ...] = ()


def read_skill(raw: bytes) -> SkillReading:
    """Read the file of a skill, and check it as far as the file alone can say."""
    try:
        text = decode(raw)
        document = split(text)
        if isinstance(document, Issue):
            return SkillReading(issues=(document,))
        # The front matter begins below its opening line.
        tree = parse_yaml(document.front_matter, line=2)
    except Unreadable as stop:
        return SkillReading(issues=(stop.issue,))
    # Unknown keys too: one such as `tools` would look as if it gave the prompt
    # something to call.
    if faults := walk(tree, SkillHeader):
        return SkillReading(issues=tuple(faults))
    header = msgspec.convert(plain(tree), SkillHeader)
    skill = Skill(
        name=header.name,
        version=header.version,
        description=header.description,
        body=document.body.strip(),
        digest=skill_digest(raw),
    )
    before = text[: len(text) - len(document.body)]
    return SkillReading(
        skill=skill,
        issues=(
            *_version_faults(skill),
            *_tag_faults(document.body, before.count("\n")),
        ),
    )


def skill_digest(raw: bytes) -> str:
    """The digest of a skill's file; a checkout that turned its line ends around has the same."""
    unified = raw.replace(b"\r\n", b"\n")
    return f"sha256-{sha256(unified).hexdigest()}"


def read_skill_changelog(text: str) -> tuple[SkillVersion, ...]:
    """The sections `## NAME VERSION` of a changelog, in its order: of each skill the newest is the first."""
    found = [*_SECTION.finditer(text)]
    ends = [*(section.start() for section in found[1:]), len(text)]
    return tuple(
        _version_in(text, section, end)
        for section, end in zip(found, ends, strict=True)
    )


def skill_faults(skill: Skill, versions: Sequence[SkillVersion]) -> tuple[Issue, ...]:
    """Every fault of a skill against its changelog: a version has one section, and a prompt as that section has it."""
    own = [version for version in versions if version.name == skill.name]
    matching = [version for version in own if version.version == skill.version]
    if not matching:
        message = f"The changelog has no section `## {skill.name} {skill.version}`"
        hint = f"add it above the older ones, with the digest {skill.digest} and what changed"
        return (_fault(IssueCode.REQUIRED, message, hint, "version"),)
    # A changelog has its newest version at the top.
    section = matching[0]
    return tuple(
        _section_faults(
            skill,
            section,
            is_newest=own[0] is section,
            is_only=len(matching) == 1,
        )
    )


def _section_faults(
    skill: Skill,
    section: SkillVersion,
    *,
    is_newest: bool,
    is_only: bool,
) -> Iterator[Issue]:
    label = f"{skill.name} {skill.version}"
    if not is_only:
        yield _fault(
            IssueCode.DUPLICATE_KEY,
            f"The changelog has two sections `## {label}`",
            "keep one of them",
        )
    if not is_newest:
        hint = f"raise `version`, or move `## {label}` above the others"
        yield _fault(
            IssueCode.CONTRADICTION,
            f"The changelog has a newer version of {skill.name}",
            hint,
            "version",
        )
    if not section.digest:
        hint = f"add the line `Digest: {skill.digest}` to it"
        yield _fault(
            IssueCode.REQUIRED,
            f"The section `## {label}` of the changelog has no digest",
            hint,
        )
    elif section.digest != skill.digest:
        message = f"The prompt of {skill.name} changed, and its version is still {skill.version}"
        # The digest covers the version too, so that there is none to name before the
        # version is raised.
        hint = "raise `version`, then check it again: the section that the changelog needs is named"
        yield _fault(IssueCode.CONTRADICTION, message, hint, "version")
    if not section.has_words:
        yield _fault(
            IssueCode.EMPTY,
            f"The section `## {label}` does not say what changed",
            "add a line `- …` to it",
        )


def _version_in(text: str, section: re.Match[str], end: int) -> SkillVersion:
    content = text[section.end() : end]
    digest = _DIGEST.search(content)
    return SkillVersion(
        name=section["name"],
        version=section["version"],
        digest=digest[0] if digest else "",
        has_words=_WORDS.search(content) is not None,
        line=text.count("\n", 0, section.start()) + 1,
    )


def _version_faults(skill: Skill) -> Iterator[Issue]:
    if not is_semantic_version(skill.version):
        message = f"`{skill.version}` is not a semantic version"
        yield _fault(
            IssueCode.VERSION_NOT_SEMANTIC,
            message,
            "write it as in `1.0.0`",
            "version",
        )


def _tag_faults(body: str, lines_before: int) -> Iterator[Issue]:
    """Every tag has to be there once, opened and closed on lines of their own, in the order of the standard."""
    matches = list(_TAG.finditer(body))
    found = [f"<{match['end']}{match['name']}>" for match in matches]
    lines = [
        lines_before + body.count("\n", 0, match.start("end")) + 1 for match in matches
    ]
    absent = [mark for mark in _MARKS if mark not in found]
    for mark in absent:
        yield _fault(
            IssueCode.REQUIRED,
            f"The body has no line `{mark}`",
            f"the tags are {', '.join(SKILL_TAGS)}",
        )
    for place, mark in enumerate(found):
        if mark in found[:place]:
            yield _fault(
                IssueCode.FORM,
                f"`{mark}` is there twice",
                "keep one of them",
                line=lines[place],
            )
    # The order means something only once every mark is there exactly once.
    if not absent and len(found) == len(_MARKS):
        yield from _order_faults(found, lines)


def _order_faults(found: list[str], lines: list[int]) -> Iterator[Issue]:
    """A fault of the first mark that is not in its place."""
    for mark, wanted, line in zip(found, _MARKS, lines, strict=True):
        if mark != wanted:
            message = f"`{mark}` is out of order"
            hint = f"`{wanted}` belongs here"
            yield _fault(IssueCode.FORM, message, hint, line=line)
            return


def _fault(
    code: IssueCode,
    message: str,
    hint: str,
    key: str = "",
    line: int = 1,
) -> Issue:
    return Issue(
        at=(key,) if key else (),
        code=code,
        message=message,
        hint=hint,
        line=line,
    )
