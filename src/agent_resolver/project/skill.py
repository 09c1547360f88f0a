"""The prompts of a planner with a model: those of the package, or those of a folder of the project."""

import os
from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Struct

import agent_resolver.reasoner
from agent_resolver.catalog.entry import Definition
from agent_resolver.catalog.reader import read_entry
from agent_resolver.catalog.uri import SCHEME
from agent_resolver.core.skill import read_skill, read_skill_changelog, skill_faults
from agent_resolver.project.errors import InvalidSkills
from agent_resolver.project.session import Session
from agent_resolver.reasoner.planner.model import SKILL_NAMES
from agent_resolver.runtime.file_spec import spec_of
from agent_resolver.runtime.spec import AgentSpec
from agent_resolver.schema.issue import Issue, IssueCode
from agent_resolver.schema.skill import MAX_SKILL_BYTES, Skill
from agent_resolver.schema.source import Unreadable, decode
from agent_resolver.storage.file import read_bounded

SHIPPED_SKILLS: Final = os.path.join(
    os.path.dirname(agent_resolver.reasoner.__file__ or ""), "skill"
)
"""The folder of the skills that come with the package."""
CHANGELOG: Final = "CHANGELOG.md"


class ExaminedSkill(Struct, frozen=True, kw_only=True):
    """The file of a skill, with every fault of it."""

    file: str
    raw: bytes
    skill: Skill | None
    """None if its front matter cannot be used."""
    issues: tuple[Issue, ...]


class LoadedSkill(Struct, frozen=True):
    """A skill without a fault, and the agent that follows it."""

    skill: Skill
    spec: AgentSpec


def skill_folder(session: Session) -> str:
    """The folder of skills that the settings name, else that of the package.

    Raises:
        InvalidSkills: The folder is not below the project.
        UntrustedFolder: The project would instruct models, and no person trusts it.
    """
    named = session.config.reasoner.skills
    if named is UNSET:
        return SHIPPED_SKILLS
    # A link must not lead to instructions from outside of the project.
    folder = os.path.realpath(os.path.join(session.root, named))
    root = os.path.realpath(session.root)
    if os.path.commonpath([folder, root]) != root:
        message = f"`{named}` is not a folder of the project"
        hint = "name one in `[reasoner] skills` of agent.toml"
        raise InvalidSkills(
            {
                named: (
                    Issue(
                        at=(), code=IssueCode.OUT_OF_RANGE, message=message, hint=hint
                    ),
                )
            }
        )
    # A prompt decides what a model does, so it needs trust as code does.
    session.require_trust("its skills instruct the model that plans tasks")
    return folder


def examine_skills(
    folder: str, users: frozenset[int] = frozenset()
) -> tuple[ExaminedSkill, ...]:
    """Every skill that a planner needs, with its faults and those of its section in the changelog.

    Raises:
        FileError: A file is missing, too long, or belongs to another user.
    """
    raw_changelog = read_bounded(
        os.path.join(folder, CHANGELOG), MAX_SKILL_BYTES, users
    )
    try:
        versions = read_skill_changelog(decode(raw_changelog))
    except Unreadable:
        # Each skill then lacks its section, and says so.
        versions = ()
    examined = []
    # All skills are read before any is refused, so that every fault is reported at
    # once.
    for name in SKILL_NAMES:
        path = os.path.join(folder, f"{name}.md")
        raw = read_bounded(path, MAX_SKILL_BYTES, users)
        reading = read_skill(raw)
        skill = reading.skill
        issues = (
            *reading.issues,
            *(skill_faults(skill, versions) if skill else ()),
            *_name_faults(name, skill),
        )
        examined.append(ExaminedSkill(file=path, raw=raw, skill=skill, issues=issues))
    return tuple(examined)


def _name_faults(name: str, skill: Skill | None) -> tuple[Issue, ...]:
    if skill is None or skill.name == name:
        return ()
    message = f"The file `{name}.md` has the name `{skill.name}`"
    return (
        Issue(
            at=("name",),
            code=IssueCode.CONTRADICTION,
            message=message,
            hint=f"write `name: {name}`",
        ),
    )


def load_skills(
    folder: str, users: frozenset[int] = frozenset()
) -> Mapping[str, LoadedSkill]:
    """The skills of a folder, by name.

    Raises:
        InvalidSkills: One of them has a fault, such as a changed prompt with an old version.
        FileError: A file is missing, too long, or belongs to another user.
    """
    examined = examine_skills(folder, users)
    if faults := {each.file: each.issues for each in examined if each.issues}:
        raise InvalidSkills(faults)
    return {
        each.skill.name: LoadedSkill(each.skill, _spec_of(each))
        for each in examined
        if each.skill
    }


def _spec_of(examined: ExaminedSkill) -> AgentSpec:
    """The agent of a skill, read as the catalog and the runtime read every agent file."""
    stem = os.path.splitext(os.path.basename(examined.file))[0]
    entry = read_entry(examined.raw, stem)
    if isinstance(entry, Issue):
        raise InvalidSkills({examined.file: (entry,)})
    return spec_of(
        Definition(
            f"{SCHEME}{entry.name}", entry, examined.file, examined.file, examined.raw
        )
    )
