"""What the GitHub Action does once `agent` is installed: verify every lock, and review what changed since the base.

All that it is told comes in environment variables. The names of files and branches are strangers' text: they reach
`git` and `agent` as arguments that cannot pass for options, the summary as code, and the log inside workflow commands.
"""

import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

RISKS = ("none", "safe", "review", "risk")
"""The classes of `agent diff`, the least first."""
FAIL_ON = {"review": {"review", "risk"}, "risk": {"risk"}, "never": set[str]()}
MAX_SUMMARY_BYTES = 1_000_000
"""GitHub shows no summary at all if a step writes more than 1 MiB."""

_MARKUP = re.compile(r"[^\w ]")


class Stop(Exception):
    """There is nothing more to do; the text says why."""


Document = dict[str, Any]
"""What `agent` prints with `--json`."""


class Finding(NamedTuple):
    """What there is to say about one lock."""

    path: str
    risk: str
    text: str
    """Markdown."""


class Place(NamedTuple):
    """Where the two sides of the comparison are."""

    desk: Path
    """A folder with the links `head` and `base`, so that every path given to `agent` starts with one of these words."""
    workspace: Path
    head_index: Path
    base_index: Path
    commit: str


def main() -> int:
    """Verify, review, report; whether the step succeeds."""
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return run(os.environ)
    except Stop as problem:
        tell("error", str(problem))
        return 1


def run(environment: Mapping[str, str]) -> int:
    """What `main` does, for one environment."""
    name, fail_on = environment["AGENT_BASE"], environment["AGENT_FAIL_ON"]
    if fail_on not in FAIL_ON:
        raise Stop(f"`fail-on` is `{fail_on}`, and has to be `risk`, `review` or `never`")
    root = Path(environment["GITHUB_WORKSPACE"])
    workspace = root / environment["AGENT_WORKSPACE"]
    if not workspace.is_dir():
        raise Stop(f"`workspace` is `{environment['AGENT_WORKSPACE']}`, and there is no such folder")
    index = root / environment["AGENT_INDEX"] if environment["AGENT_INDEX"] else workspace / "mcp.index.json"
    desk = Path(tempfile.mkdtemp(prefix="agent-review-", dir=environment["RUNNER_TEMP"]))

    locks = verify(workspace, index, root)
    try:
        place = base(name, workspace, index, desk) if name else None
    except Stop as problem:
        write(environment, desk, [*verified(locks), f"\n{code(str(problem))}\n"], "")
        raise
    findings = sorted(review(place, locks), key=lambda found: (-RISKS.index(found.risk), found.path)) if place else []
    if not locks and not findings:
        raise Stop("No agent file in the workspace has `requires`: is `workspace` the right folder?")
    risk = max((found.risk for found in findings), key=RISKS.index, default="none") if place else ""
    about = "\nThere is no base to compare with: this is no pull request, and `base` is not set.\n"
    if place:
        about = f"\nThe worst change since {code(name)} (commit {code(place.commit[:12])}): **{risk}**\n"
    write(environment, desk, [*verified(locks), about, *map(section, findings)], risk)
    for found in findings:
        level = "error" if found.risk in FAIL_ON[fail_on] else "notice"
        tell(level, f"{found.path}: {found.risk}, see the summary", os.path.relpath(workspace / found.path, root))
    print(f"{held(locks)}; worst change: {risk or 'not compared'}")
    return 0 if all(lock["holds"] for lock in locks) and risk not in FAIL_ON[fail_on] else 1


def verify(workspace: Path, index: Path, root: Path) -> list[Document]:
    """What `agent verify` says of every lock; each difference becomes an annotation."""
    document = asked(agent("verify", "--workspace=.", f"--index={index.absolute()}", "--json", folder=workspace))
    if document.get("error", {}).get("code") == "EMPTY_WORKSPACE":
        return []
    if "locks" not in document:
        raise Stop(f"The locks cannot be verified: {reason(document)}")
    for lock in document["locks"]:
        for sentence in sentences(lock):
            tell("error", f"{lock['path']}: {sentence}", os.path.relpath(workspace / lock["path"], root))
    return list(document["locks"])


def sentences(lock: Document) -> list[str]:
    """Everything about a lock that does not hold."""
    found = [f"{one['kind']}: {one['subject']}: {one['message']}; {one['hint']}" for one in lock["differences"]]
    return [lock["problem"], *found] if lock["problem"] else found


def verified(locks: Sequence[Document]) -> list[str]:
    """What `agent verify` said, as Markdown."""
    broken = [lock for lock in locks if not lock["holds"]]
    lines = [f"- {code(lock['path'])}: {code(sentence)}\n" for lock in broken for sentence in sentences(lock)]
    return [f"# Agent locks\n\n{held(locks)} (`agent verify`)\n", *(["\n"] if lines else []), *lines]


def held(locks: Sequence[Document]) -> str:
    """How many locks hold, in words."""
    return f"Locks that hold: {sum(lock['holds'] for lock in locks)} of {len(locks)}"


def section(found: Finding) -> str:
    """A finding under the name of its lock, as Markdown."""
    return f"\n## {code(found.path)}\n\n{found.text}"


def base(name: str, workspace: Path, index: Path, desk: Path) -> Place:
    """Put the agent files, the locks and the index of the base on the desk."""
    top = Path(git(workspace, "rev-parse", "--show-toplevel").removesuffix("\n"))
    prefix = git(workspace, "rev-parse", "--show-prefix").removesuffix("\n")
    commit, tree = commit_of(name, workspace), desk / "tree"
    index_name = os.path.relpath(index.resolve(), top.resolve())
    copy_files(top, commit, prefix, index_name, tree)
    (desk / "head").symlink_to(workspace.absolute(), target_is_directory=True)
    (desk / "base").symlink_to(tree / prefix, target_is_directory=True)
    # An index from elsewhere has no history: both sides are held against the one there is, and `agent diff` says so.
    is_inside = not index_name.startswith(os.pardir + os.sep)
    return Place(desk, workspace, index.absolute(), tree / index_name if is_inside else index.absolute(), commit)


def commit_of(name: str, workspace: Path) -> str:
    """Where the checkout and the base parted: what happened on the base since is not of this change."""
    ways = (
        ("show-ref", "--verify", "--hash", "--", f"refs/remotes/origin/{name}"),
        ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"),
    )
    found = next(filter(None, (git(workspace, *way, may_fail=True).strip() for way in ways)), None)
    if found is None:
        raise Stop(f"The base `{name}` is not in this clone: give `actions/checkout` the option `fetch-depth: 0`")
    parted = git(workspace, "merge-base", found, "HEAD", may_fail=True).strip()
    if not parted:
        raise Stop(
            f"This clone does not reach back to where it parted from the base `{name}`: "
            "give `actions/checkout` the option `fetch-depth: 0`"
        )
    return parted


def copy_files(top: Path, commit: str, prefix: str, index_name: str, tree: Path) -> None:
    """Write each lock of the commit that has an agent file beside it, that agent file, and the index."""
    blobs = {}
    for entry in git(top, "ls-tree", "-r", "-z", "--full-tree", commit).split("\0"):
        facts, _, path = entry.partition("\t")
        # Links are left alone, as `agent` leaves them alone.
        if facts.startswith("100") and os.pardir not in path.split("/"):
            blobs[path] = facts.split()[2]
    stems = [path.removesuffix(".lock") for path in blobs if path.startswith(prefix) and path.endswith(".lock")]
    pairs = [name for stem in stems if f"{stem}.md" in blobs for name in (f"{stem}.md", f"{stem}.lock")]
    wanted = [*pairs, index_name] if index_name in blobs else pairs
    asked_for = "".join(f"{blobs[path]}\n" for path in wanted)
    content = io.BytesIO(os.fsencode(git(top, "cat-file", "--batch", given=asked_for)))
    for path in wanted:
        size = int(content.readline().split()[2])
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(content.read(size))
        content.read(1)


def review(place: Place, locks: Sequence[Document]) -> Iterator[Finding]:
    """What there is to say about each lock of the workspace, and each that was there before."""
    index_changed = not same(place.head_index, place.base_index)
    base_folder = (place.desk / "base").resolve()
    before = {os.path.relpath(path, base_folder) for path in base_folder.rglob("*.lock")}
    changed = []
    for lock in locks:
        path = lock["path"]
        if path not in before:
            yield added(place, lock)
        elif index_changed or not is_same_pair(place, path):
            changed.append(path)
    with ThreadPoolExecutor() as pool:
        yield from filter(None, pool.map(lambda path: compared(place, path), changed))
    for path in before - {lock["path"] for lock in locks}:
        # Any other file may be called `.lock` and have a Markdown file of its name beside it.
        if not is_same_pair(place, path) and "error" not in differences(place, path, "base", "base"):
            yield removed(place, path)


def added(place: Place, lock: Document) -> Finding:
    """A lock that the base does not have: all that it lets an agent do is new."""
    lines = ["### This lock is new\n"]
    if lock["holds"]:
        for entry in json.loads((place.workspace / lock["path"]).read_bytes())["servers"]:
            server = f"{entry['serverId']}@{entry['version']}"
            lines.append(f"- {code(entry['category'])}: {code(server)} with {code(', '.join(entry['scopes']))}")
    return Finding(lock["path"], "risk", "\n".join(lines) + "\n")


def removed(place: Place, path: str) -> Finding:
    """A lock that is no longer that of an agent file with `requires`."""
    if os.path.lexists(place.workspace / path):
        text = "### This lock is not verified\n\nIt changed, and has no agent file with `requires` beside it.\n"
        return Finding(path, "risk", text)
    return Finding(path, "safe", "### This lock was removed\n")


def compared(place: Place, path: str) -> Finding | None:
    """What `agent diff` says; None where nothing changed."""
    document = differences(place, path, "base", "head")
    if "error" in document:
        return Finding(path, "risk", f"### This lock cannot be compared\n\n{code(reason(document))}\n")
    if document["worst"] is None:
        return None
    return Finding(path, document["worst"], diff(place, path, "base", "head", "markdown").stdout)


def differences(place: Place, path: str, old: str, new: str) -> Document:
    """What `agent diff` says of two locks, as a value."""
    return asked(diff(place, path, old, new, "json"))


def diff(place: Place, path: str, old: str, new: str, form: str) -> subprocess.CompletedProcess[str]:
    """Compare the lock at `path` on two sides."""
    indexes = {"base": place.base_index, "head": place.head_index}
    sides = [
        f"--{word}-index={indexes[side]}" for word, side in (("old", old), ("new", new)) if indexes[side].is_file()
    ]
    return agent("diff", f"--format={form}", *sides, f"{old}/{path}", f"{new}/{path}", folder=place.desk)


def is_same_pair(place: Place, path: str) -> bool:
    """Whether a lock and its agent file are what they were."""
    pair = (path, f"{path.removesuffix('.lock')}.md")
    return all(same(place.workspace / name, place.desk / "base" / name) for name in pair)


def same(one: Path, other: Path) -> bool:
    """Whether two files are there with the same bytes."""
    return one.is_file() and other.is_file() and one.read_bytes() == other.read_bytes()


def write(environment: Mapping[str, str], desk: Path, parts: Sequence[str], risk: str) -> None:
    """The whole report, as much of it as a summary takes, and the outputs."""
    report = desk / "report.md"
    report.write_bytes(b"".join(map(encoded, parts)))
    with Path(environment["GITHUB_STEP_SUMMARY"]).open("ab") as summary:
        summary.write(bounded(parts))
    with Path(environment["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as output:
        output.write(f"risk={risk}\nreport={report}\n")


def bounded(parts: Sequence[str]) -> bytes:
    """The parts that fit together, and how many do not."""
    kept, room = [], MAX_SUMMARY_BYTES
    for part in map(encoded, parts):
        if len(part) <= room:
            kept.append(part)
            room -= len(part)
    if left := len(parts) - len(kept):
        kept.append(encoded(f"\nParts that do not fit here: {left}; the output `report` names the whole\n"))
    return b"".join(kept)


def encoded(text: str) -> bytes:
    """Text for a file, also where a name in it is no UTF-8."""
    return text.encode(errors="backslashreplace")


def agent(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `agent`; `-I` because the folder may hold a stranger's modules."""
    command = [sys.executable, "-I", "-X", "utf8", "-m", "agent_resolver", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, encoding="utf-8", errors="surrogateescape", check=False
    )


def asked(done: subprocess.CompletedProcess[str]) -> Document:
    """The JSON document that a command printed."""
    try:
        document: Document = json.loads(done.stdout)
    except ValueError:
        raise Stop(f"`agent` failed: {done.stderr.strip()}") from None
    return document


def reason(document: Document) -> str:
    """Why a command refused."""
    error = document["error"]
    issues = [f"{file['path']}: {issue['message']}" for file in error["files"] for issue in file["issues"]]
    return "; ".join([error["message"], *issues, *([error["hint"]] if error["hint"] else [])])


def git(folder: Path, *arguments: str, given: str = "", may_fail: bool = False) -> str:
    """What `git` prints; names in it are any bytes."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, input=given.encode(), capture_output=True, check=False)
    except FileNotFoundError:
        raise Stop("`git` is needed to compare with the base, and is not installed") from None
    if done.returncode and not may_fail:
        raise Stop(f"`git {arguments[0]}` failed: {os.fsdecode(done.stderr).strip()}")
    return os.fsdecode(done.stdout) if done.returncode == 0 else ""


def tell(level: str, message: str, file: str = "") -> None:
    """Print a workflow command; nothing in it can start another one."""
    at = f" file={escaped(file).replace(':', '%3A').replace(',', '%2C')}" if file else ""
    print(f"::{level}{at}::{escaped(message)}")


def escaped(text: str) -> str:
    """Text in a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def code(text: str) -> str:
    """Text as code in Markdown, whatever it holds."""
    shown = "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
    return f"<code>{_MARKUP.sub(lambda found: f'&#{ord(found.group())};', shown)}</code>"


if __name__ == "__main__":
    sys.exit(main())
