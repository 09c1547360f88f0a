"""The page of `agent report`: one HTML text, made of a resolution and a lock and of nothing else."""

import shlex
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Struct

from agent_resolver.cli.report.drawing import (
    describe_claims,
    describe_residency,
    draw_narrow,
    draw_wide,
)
from agent_resolver.cli.report.lock import LockState
from agent_resolver.cli.report.markup import FILTERS
from agent_resolver.cli.report.requirement import MOST_SHOWN, answers
from agent_resolver.core.resolution import Resolution
from agent_resolver.schema.artifact_path import lock_path_of
from agent_resolver.schema.issue import Issue
from agent_resolver.schema.lockfile import to_json

_TEMPLATES: Final = PackageLoader("agent_resolver.cli.report", "template")
_MOST_OPEN: Final = 25
"""How many rejections are in sight before a reader asks for them."""


class Subject(Struct, frozen=True, kw_only=True):
    """All that a page is made of; its paths are as seen from the folder of the agent file."""

    resolution: Resolution
    warnings: tuple[Issue, ...]
    lock: LockState
    agent_path: str
    index_path: str
    lock_path: str


def page(subject: Subject) -> str:
    """The page; the same subject gives the same text."""
    environment = _load_templates()
    style = _read_style(environment)
    resolution = subject.resolution
    found = answers(resolution)
    return environment.get_template("page.html").render(
        style=style,
        # The policy of the page lets a browser apply this style, and load nothing.
        style_digest=b64encode(sha256(style.encode()).digest()).decode(),
        agent=resolution.agent,
        limits=resolution.limits,
        warnings=subject.warnings,
        server_count=len(resolution.pool),
        answers=found,
        failed=len(resolution.failed),
        wide=draw_wide(resolution.agent, found),
        narrow=draw_narrow(resolution.agent, found),
        most_shown=MOST_SHOWN,
        most_open=_MOST_OPEN,
        advice=_describe_suggestions(resolution),
        lock=subject.lock,
        lock_path=subject.lock_path,
        agent_path=subject.agent_path,
        commands=list(_commands_to_reproduce(subject)),
        lock_digest=_lock_digest(resolution),
    )


def _load_templates() -> Environment:
    environment = Environment(
        loader=_TEMPLATES,
        # Escaping is on for every template: names and messages come from files that are
        # not trusted.
        autoescape=True,
        # A misspelled name in a template fails instead of leaving a hole in the page.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        **FILTERS,
        "claims": describe_claims,
        "residency": describe_residency,
    }
    return environment


def _read_style(environment: Environment) -> str:
    """The style of the page, as it stands in its element."""
    content, _, _ = _TEMPLATES.get_source(environment, "style.css")
    # The line break is part of the style: the digest in the policy covers the whole
    # text of the element.
    return f"\n{content}"


def _describe_suggestions(resolution: Resolution) -> tuple[str, ...]:
    """The edits that would make a failed resolution succeed, a sentence for each suggestion."""
    sentences = []
    for failed in resolution.failures:
        for suggestion in failed.suggestions:
            server = f"{suggestion.server_id}@{suggestion.version}"
            edits = ", and ".join(map(str, suggestion.edits))
            warning = " (this loosens a constraint)" if suggestion.loosens else ""
            sentences.append(
                f"For `{failed.category}`, with `{server}`: {edits}{warning}."
            )
    return tuple(sentences)


def _commands_to_reproduce(subject: Subject) -> Iterator[str]:
    """The command lines that give the same results again."""
    options = ""
    # The commands are to be run in the folder of the agent file; options at their
    # default are left out.
    if subject.agent_path != "agents.md":
        options += f" --agents {shlex.quote(subject.agent_path)}"
    if subject.index_path != "mcp.index.json":
        options += f" --index {shlex.quote(subject.index_path)}"
    output = lock = ""
    if subject.lock_path != lock_path_of(subject.agent_path):
        # The lock is an output of one command and an input of another, so the same path
        # needs two options.
        output, lock = (
            f" {option} {shlex.quote(subject.lock_path)}"
            for option in ("--output", "--lock")
        )
    yield f"agent validate --strict{options}"
    yield f"agent resolve --check{options}{output}"
    yield f"agent resolve --explain{options}{output}"
    yield f"agent report{options}{lock}"


def _lock_digest(resolution: Resolution) -> str:
    """The digest of the lock that would be written now; empty where there would be none."""
    lockfile = resolution.lockfile
    if lockfile:
        return sha256(to_json(lockfile)).hexdigest()
    return ""
