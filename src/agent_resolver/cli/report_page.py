"""The page of `agent report`: one HTML text, made of a resolution and a lock and of nothing else."""

import shlex
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final

from msgspec import Struct

from agent_resolver.cli.report_drawing import SIGNED_WORDS, DrawnBranch, drawing, residency_words
from agent_resolver.cli.report_lock import LockState, LockStatus
from agent_resolver.cli.report_markup import chips, code, count, facts, name, plain, sentence, table
from agent_resolver.cli.report_requirement import Answer, answers, requirement_section
from agent_resolver.cli.report_style import STYLE, content_security_policy
from agent_resolver.core.resolution import Resolution
from agent_resolver.schema.issue import Issue
from agent_resolver.schema.lockfile import to_json

_MOST_DIFFERENCES_SHOWN: Final = 200
_LONG_NAME: Final = 48
_CHECK: Final = '<path d="M7 12.5l3.4 3.4L17 9" fill="none" stroke="currentColor" stroke-width="2"/>'
_CROSS: Final = '<path d="M8 8l8 8m0-8l-8 8" fill="none" stroke="currentColor" stroke-width="2"/>'


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
    found = answers(subject.resolution)
    advice = _suggestions(subject.resolution)
    agent = subject.resolution.agent
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="generator" content="agent report">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{content_security_policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        '<meta name="format-detection" content="telephone=no">\n'
        f"<title>{plain(f'{agent.name}@{agent.version}')}: resolution report</title>\n<style>{STYLE}</style>\n</head>\n"
    )
    sections = (
        _constraints(subject),
        _overview(subject, found),
        _requirements(found),
        _advice(advice),
        _lock(subject),
        _reproduction(subject),
    )
    parts = (*_header(subject, found), *_navigation(has_advice=bool(advice)), '<main id="main">', *sections, "</main>")
    body = "\n".join(filter(None, parts))
    skip = '<a class="skip" href="#main">Skip to the content</a>'
    return f'{head}<body>\n{skip}\n<div class="page">\n{body}\n{_FOOTER}\n</div>\n</body>\n</html>\n'


def _suggestions(resolution: Resolution) -> tuple[str, ...]:
    """What would make a failed resolution succeed, a sentence each."""
    return tuple(
        f"For `{failed.category}`, with `{suggestion.server_id}@{suggestion.version}`: "
        f"{', and '.join(map(str, suggestion.edits))}"
        f"{' (this loosens a constraint)' if suggestion.loosens else ''}."
        for failed in resolution.failures
        for suggestion in failed.suggestions
    )


def _header(subject: Subject, found: Sequence[Answer]) -> Iterator[str]:
    agent, failed = subject.resolution.agent, len(subject.resolution.failed)
    yield '<header>\n<p class="eyebrow">Agent Resolver report</p>'
    size = ' class="long"' if len(agent.name) > _LONG_NAME else ""
    yield f'<h1{size}>{name(agent.name)}<wbr><span class="version">@{name(agent.version)}</span></h1>'
    if failed:
        have = "has" if failed == 1 else "have"
        said = f"{failed:,} of {count(len(found), 'requirement')} {have} no server"
        more = "The agent cannot be locked until every requirement has one."
        yield _verdict("bad", _CROSS, said, more)
    else:
        more = f"{subject.lock_path} {_LOCK_WORDS[subject.lock.status]}."
        yield _verdict("good", _CHECK, "Every requirement has a server", plain(more))
    yield facts(
        (
            (_noun(len(found), "requirement"), f"{len(found):,}"),
            ("with a server", f"{len(found) - failed:,}"),
            ("candidates rejected", f"{sum(answer.rejected for answer in found):,}"),
            (
                f"{_noun(len(subject.resolution.servers), 'server')} in the index",
                f"{len(subject.resolution.servers):,}",
            ),
        ),
        "figures",
    )
    yield "</header>"


def _noun(number: int, one: str) -> str:
    return count(number, one).split(" ", 1)[1]


def _verdict(kind: str, mark: str, said: str, more: str) -> str:
    sign = (
        f'<svg viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="12" r="11" fill="none" {_THIN}/>{mark}</svg>'
    )
    return f'<p class="verdict {kind}">{sign}<span>{said}<small>{more}</small></span></p>'


_THIN: Final = 'stroke="currentColor" stroke-width="1.5"'


def _navigation(*, has_advice: bool) -> Iterator[str]:
    targets = [("constraints", "Constraints"), ("overview", "Overview"), ("requirements", "Requirements")]
    targets += [("advice", "What would help")] if has_advice else []
    targets += [("lock", "Lock"), ("reproduce", "Reproduce")]
    links = "".join(f'<li><a href="#{anchor}">{words}</a></li>' for anchor, words in targets)
    yield f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


def _section(anchor: str, title: str, *parts: str) -> str:
    body = "\n".join(filter(None, parts))
    heading = f'<h2 id="{anchor}-title">{title}</h2>'
    return f'<section id="{anchor}" aria-labelledby="{anchor}-title">\n{heading}\n{body}\n</section>'


def _constraints(subject: Subject) -> str:
    lead = '<p class="lead">What the agent file asks of every server, whatever the requirement.</p>'
    card = f'<div class="card">{facts(_limits(subject.resolution), "claims")}</div>'
    return _section("constraints", "Constraints in force", lead, card, *_warnings(subject))


def _limits(resolution: Resolution) -> Iterator[tuple[str, str]]:
    limits = resolution.limits
    free = "Not constrained"
    if limits.residency is None or limits.residency == "any":
        yield "Residency", f"{free}<p>Servers may keep data anywhere.</p>"
    else:
        yield "Residency", f"{code(limits.residency)}<p>A server must list it, or <code>any</code>.</p>"
    if limits.sensitivity:
        yield "Sensitivity", f"{code(limits.sensitivity)}<p>A server must be fit for data at least as sensitive.</p>"
    else:
        yield "Sensitivity", f"{free}<p>Servers are not asked how sensitive their data may be.</p>"
    if limits.require_signed:
        yield "Signed servers", "Required<p>The index must say that a server is signed.</p>"
    else:
        yield "Signed servers", f"{free}<p>Signed servers are preferred; others are accepted.</p>"
    if limits.forbid:
        said = f"{chips(sorted(set(limits.forbid)))}<p>No scope and no tool that matches may be used.</p>"
        yield "Forbidden actions", said
    else:
        yield "Forbidden actions", f"{free}<p>Nothing is forbidden by name.</p>"


def _warnings(subject: Subject) -> Iterator[str]:
    if not subject.warnings:
        return
    items = "".join(
        f"<li>{sentence(str(issue))}{f'; {sentence(issue.hint)}' if issue.hint else ''} (line {issue.line})</li>"
        for issue in subject.warnings
    )
    said = f"{count(len(subject.warnings), 'warning')} about the agent file"
    yield f'<div class="card"><h3>{said}</h3><ul class="plain">{items}</ul></div>'


def _overview(subject: Subject, found: Sequence[Answer]) -> str:
    branches = [DrawnBranch(answer.choice.requirement, answer.choice.server, answer.rejected) for answer in found]
    rows = (_overview_row(answer) for answer in found)
    heads = ("Requirement", "Scopes asked for", "Server", "Rejected")
    words = table("What the drawing shows", heads, rows, "overview")
    return _section(
        "overview",
        "Which server serves what",
        '<p class="lead">From the agent to its requirements, and from each to the server that was chosen.</p>',
        f'<figure class="card">\n{drawing(subject.resolution.agent, branches)}\n</figure>',
        f"<details><summary>The same as a table</summary>\n{words}\n</details>",
    )


def _overview_row(answer: Answer) -> tuple[str, str, str, str]:
    need, server = answer.choice.requirement, answer.choice.server
    link = f'<a href="#requirement-{answer.number}">{name(need.category)}</a>'
    said = f"{code(str(server))}, {SIGNED_WORDS[server.signed]}, {residency_words(server)}" if server else "No server"
    return link, ", ".join(map(code, dict.fromkeys(need.permissions))), said, f"{answer.rejected:,}"


def _requirements(found: Sequence[Answer]) -> str:
    lead = '<p class="lead">The facts about a server are what the index states; nothing here checks them.</p>'
    return _section("requirements", "Requirements", lead, *map(requirement_section, found), _RULES)


def _advice(sentences: Sequence[str]) -> str:
    if not sentences:
        return ""
    items = "".join(f"<li>{sentence(said)}</li>" for said in sentences)
    return _section("advice", "What would make it resolve", f'<div class="card"><ul class="plain">{items}</ul></div>')


_LOCK_WORDS: Final = {
    LockStatus.MISSING: "is missing",
    LockStatus.HOLDS: "holds",
    LockStatus.DIFFERS: "does not hold",
    LockStatus.UNREADABLE: "cannot be read as a file",
}


def _lock(subject: Subject) -> str:
    return _section("lock", "The lock", '<div class="card">', *_lock_parts(subject), "</div>")


def _lock_parts(subject: Subject) -> Iterator[str]:
    lock, path = subject.lock, code(subject.lock_path)
    state = "good" if lock.status is LockStatus.HOLDS else "warn" if lock.status is LockStatus.MISSING else "bad"
    yield f'<p>{path} <span class="state {state}">{_LOCK_WORDS[lock.status]}</span></p>'
    if lock.status is LockStatus.MISSING:
        yield '<p class="quiet">No tool may be called until <code>agent resolve</code> has written it.</p>'
    if lock.status is LockStatus.UNREADABLE:
        yield '<p class="quiet">It is no regular file, may not be read, or is larger than a lock can be.</p>'
    if lock.status is LockStatus.HOLDS:
        yield '<p class="quiet">It is for this agent, its hashes match, and every server in it still fits.</p>'
    if lock.differences:
        yield from _differences(lock)
    if lock.outdated:
        rows = ((name(category), code(locked), code(now)) for category, locked, now in lock.outdated)
        heads = ("Requirement", "Locked", "Chosen on this page")
        yield table("It keeps other servers than would be chosen now, as a lock may", heads, rows, "outdated")


def _differences(lock: LockState) -> Iterator[str]:
    shown = lock.differences[:_MOST_DIFFERENCES_SHOWN]
    rows = ((code(found.subject), code(found.kind), sentence(found.message)) for found in shown)
    heads = ("About", "Kind", "What does not hold")
    yield table(f"{count(len(lock.differences), 'difference')}", heads, rows, "differences")
    if len(lock.differences) > len(shown):
        yield f'<p class="quiet">And {len(lock.differences) - len(shown):,} more.</p>'
    yield from (f'<p class="quiet">What to do: {sentence(said)}.</p>' for said in lock.remedies)


def _reproduction(subject: Subject) -> str:
    options = "".join(
        f" {option} {shlex.quote(path)}"
        for option, path, usual in (
            ("--agents", subject.agent_path, "agents.md"),
            ("--index", subject.index_path, "mcp.index.json"),
        )
        if path != usual
    )
    usual = f"{subject.agent_path.removesuffix('.md')}.lock"
    named = "" if subject.lock_path == usual else shlex.quote(subject.lock_path)
    output, lock = (f" {option} {named}" if named else "" for option in ("--output", "--lock"))
    commands = (
        f"agent validate --strict{options}",
        f"agent resolve --check{options}{output}",
        f"agent resolve --explain{options}{output}",
        f"agent report{options}{lock}",
    )
    lines = "\n".join(map(name, commands))
    return _section(
        "reproduce",
        "How to reproduce it",
        f'<p class="lead">In the folder of {code(subject.agent_path)}. The same files give the same page.</p>',
        f'<div class="card"><pre>{lines}</pre>{_fingerprint(subject)}</div>',
    )


def _fingerprint(subject: Subject) -> str:
    lockfile = subject.resolution.lockfile
    if lockfile is None:
        return '<p class="quiet"><code>agent resolve</code> writes no lock while a requirement has no server.</p>'
    digest = sha256(to_json(lockfile)).hexdigest()
    return (
        '<p class="quiet">A lock that is written now, with the usual <code>resolvedAt</code>, has the SHA-256 '
        f"<code>{digest}</code>.</p>"
    )


_RULES: Final = """\
<details class="rules"><summary>How a server is chosen</summary>
<p>Every server of the index is held against each requirement. The first rule that it breaks is why it is rejected:</p>
<ol>
<li>it offers the category;</li>
<li>it offers every scope that is asked for;</li>
<li>no scope that is asked for is forbidden;</li>
<li>its residency fits;</li>
<li>its highest sensitivity is not passed;</li>
<li>it is signed, where that is asked for.</li>
</ol>
<p>Among those that break none, signed servers come first, then the smallest id, then the smallest version.</p>
</details>"""

_FOOTER: Final = """\
<footer>
<p>Written by <code>agent report</code>. This page runs no scripts, loads nothing, and holds no time and no place.</p>
</footer>"""
