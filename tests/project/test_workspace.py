"""A workspace holds every agent file with `requires` below a folder, and loses none out of sight."""

import os
import sys
from pathlib import Path

import pytest

from agent_resolver.project import Member, UnusableWorkspace, members, workspace
from agent_resolver.schema import MAX_AGENT_FILE_BYTES, MAX_FRONT_MATTER_CHARACTERS
from agent_resolver.storage import OversizeFile

AGENT = """---
name: hello
version: 1.0.0
requires:
  mcp:
    - category: files
      permissions: [read]
---

# Hello
"""


def write(path: Path, content: str | bytes = AGENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def found(folder: Path) -> list[str]:
    return [os.path.relpath(member.path, folder) for member in members(str(folder))]


def refusal(folder: Path) -> UnusableWorkspace:
    with pytest.raises(UnusableWorkspace) as caught:
        list(members(str(folder)))
    return caught.value


def only(folder: Path) -> Member:
    listed = list(members(str(folder)))
    assert len(listed) == 1
    return listed[0]


# Where ----------------------------------------------------------------------------------------------------------------


def test_agent_files_are_found_at_any_depth_their_paths_in_code_point_order(tmp_path: Path) -> None:
    names = ["B.md", "a.md", "a/x.md", "a/b/c/d.md", "a-b/z.md", "é.md", "z.md", "\U0001f600.md", "\uff5e.md", "_.md"]
    for name in names:
        write(tmp_path / name)

    assert found(tmp_path) == sorted(names)


def test_the_order_is_the_same_every_time(tmp_path: Path) -> None:
    for number in (3, 1, 2):
        write(tmp_path / f"{number}.md")

    assert found(tmp_path) == found(tmp_path) == ["1.md", "2.md", "3.md"]


def test_hidden_folders_and_folders_of_installed_packages_are_left_alone(tmp_path: Path) -> None:
    for folder in (".git", ".venv/lib", "node_modules/pkg", "a/node_modules", "__pycache__", "a/.hidden"):
        write(tmp_path / folder / "x.md")
    write(tmp_path / "my_node_modules" / "x.md")

    assert found(tmp_path) == ["my_node_modules/x.md"]


def test_a_folder_that_is_named_is_searched_whatever_it_is_called(tmp_path: Path) -> None:
    write(tmp_path / ".agents" / "x.md")

    assert found(tmp_path / ".agents") == ["x.md"]


def test_only_markdown_counts(tmp_path: Path) -> None:
    for name in ("agents.txt", "agents.md.bak", "md", "agents.mdx", "agents.lock"):
        write(tmp_path / name)
    write(tmp_path / ".md")

    assert found(tmp_path) == [".md"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "real" / "x.md")
    (tmp_path / "link.md").symlink_to(tmp_path / "real" / "x.md")
    (tmp_path / "folder").symlink_to(tmp_path / "real")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "dangling.md").symlink_to("nowhere")

    assert found(tmp_path) == ["real/x.md"]


def test_what_is_no_file_is_no_agent_file(tmp_path: Path) -> None:
    (tmp_path / "folder.md").mkdir()
    os.mkfifo(tmp_path / "pipe.md")
    write(tmp_path / "folder.md" / "inside.md")

    assert found(tmp_path) == ["folder.md/inside.md"]


def test_paths_are_told_as_the_folder_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a" / "x.md")
    monkeypatch.chdir(tmp_path)

    assert [member.path for member in members(".")] == ["a/x.md"]
    assert [member.path for member in members("./a/")] == ["a/x.md"]
    assert [member.path for member in members(str(tmp_path))] == [f"{tmp_path}/a/x.md"]


def test_a_name_that_is_no_text_is_found_too(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.md"
    with open(path, "wb") as file:  # noqa: PTH123 - the name is bytes
        file.write(AGENT.encode())

    assert [os.fsencode(member.path) for member in members(str(tmp_path))] == [path]


def test_a_folder_without_an_agent_file_is_refused(tmp_path: Path) -> None:
    """To pass over nothing in silence would look like a pass."""
    refused = refusal(tmp_path)

    assert str(refused) == f"No agent file below `{tmp_path}` has `requires`"
    assert refused.hint == "name the folder that holds them"


@pytest.mark.parametrize("name", ["absent", "file", "n" * 300])
def test_a_folder_that_cannot_be_searched_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()

    refused = refusal(tmp_path / name)

    assert str(refused).startswith(f"`{tmp_path}/{name}` cannot be searched: ")
    assert refused.hint == "name a folder"


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those without `requires` count too: it is the reading that takes long."""
    monkeypatch.setattr(workspace, "MAX_WORKSPACE_FILES", 3)
    write(tmp_path / "0.md")
    for number in (1, 2):
        write(tmp_path / f"{number}.md", "prose")
    assert found(tmp_path) == ["0.md"]

    write(tmp_path / "3.md")
    assert str(refusal(tmp_path)) == f"`{tmp_path}` has more than 3 Markdown files below it"


def test_folders_far_inside_each_other_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deeper than Python calls itself, so that they are taken down from the inside as they were built."""
    depth = sys.getrecursionlimit() + 100
    monkeypatch.chdir(tmp_path)
    for _ in range(depth):
        Path("d").mkdir()
        os.chdir("d")
    write(Path("x.md"))
    try:
        assert len(list(members(str(tmp_path)))) == 1
    finally:
        Path("x.md").unlink()
        for _ in range(depth):
            os.chdir("..")
            Path("d").rmdir()


# What -----------------------------------------------------------------------------------------------------------------

WITH_REQUIRES = {
    "plain": AGENT,
    "with a byte order mark": "\ufeff" + AGENT,
    "with the line ends of Windows": AGENT.replace("\n", "\r\n"),
    "as a flow mapping": "---\n{name: x, version: 1.0.0, requires: {mcp: [{category: a, permissions: [b]}]}}\n---\n",
    "as JSON": '---\n{"name": "x", "version": "1",\n"requires": {"mcp": [{"category": "a", "permissions": ["b"]}]}}'
    "\n---\n",
    "with quotes": AGENT.replace("requires:", '"requires":'),
    "with spaces after the fence": AGENT.replace("---\n", "---  \n", 1),
    "with the key escaped": AGENT.replace("requires:", '"requ\\u0069res":'),
    "with other keys first": AGENT.replace("name:", "description: words\nname:"),
}

WITHOUT = {
    "empty": "",
    "prose": "# requires:\n\nrequires: nothing\n",
    "other front matter": "---\ntitle: requires\n---\n\nrequires: nothing\n",
    "the word below": "---\ntitle: x\n---\nrequires:\n",
    "the key inside another": "---\nskill:\n  requires: x\n---\n",
    "not at the start": "\n" + AGENT,
    "a rule": "----\nrequires: x\n---\n",
    "broken, and the word only below": "---\ntitle: [\n---\nrequires:\n",
    "broken, and the word inside a line": "---\ntitle: [requires\n---\n",
    "broken, and the key inside another": "---\na:\n  requires: [\n---\n",
}


@pytest.mark.parametrize("content", WITH_REQUIRES.values(), ids=WITH_REQUIRES)
def test_an_agent_file_with_requires_is_a_member(tmp_path: Path, content: str) -> None:
    write(tmp_path / "x.md", content)
    member = only(tmp_path)

    assert member.problem is None
    assert member.reading.agent
    assert member.reading.agent.requires.mcp


@pytest.mark.parametrize("content", WITHOUT.values(), ids=WITHOUT)
def test_a_file_without_requires_is_none(tmp_path: Path, content: str) -> None:
    write(tmp_path / "x.md", content)
    write(tmp_path / "y.md")

    assert found(tmp_path) == ["y.md"]


BROKEN = {
    "YAML": AGENT.replace("[read]", "[read"),
    "YAML before the key": AGENT.replace("name: hello", "name: [hello"),
    "YAML with the line ends of Windows": AGENT.replace("[read]", "[read").replace("\n", "\r\n"),
    "YAML with a byte order mark": "\ufeff" + AGENT.replace("[read]", "[read"),
    "a key in quotes": AGENT.replace("requires:", "'requires' :").replace("[read]", "[read"),
    "a fence that does not close": AGENT.replace("---\n\n", "\n"),
    "the schema": AGENT.replace("mcp:", "mpc:"),
    "requires alone": "---\nrequires:\n---\n",
    "no UTF-8": AGENT.encode().replace(b"hello", b"h\xe9llo"),
    "a NUL": AGENT.replace("hello", "hel\0lo"),
    "a key twice": AGENT.replace("name: hello", "name: hello\nname: other"),
    "front matter without end": f"---\nrequires: x\nnote: {'x' * MAX_FRONT_MATTER_CHARACTERS}\n---\n",
    "a merge conflict": "---\n<<<<<<< a\nname: x\n=======\nname: y\n>>>>>>> b\nrequires:\n  mcp: []\n---\n",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_an_agent_file_that_is_broken_does_not_drop_out_of_sight(tmp_path: Path, content: str | bytes) -> None:
    write(tmp_path / "x.md", content)
    member = only(tmp_path)

    assert member.reading.agent is None
    assert member.reading.issues
    assert member.problem is None


def test_a_file_that_is_too_large_is_a_member_that_cannot_be_read(tmp_path: Path) -> None:
    with (tmp_path / "x.md").open("wb") as file:
        file.truncate(MAX_AGENT_FILE_BYTES + 1)
    member = only(tmp_path)

    assert isinstance(member.problem, OversizeFile)
    assert member.reading.agent is None


def test_a_file_that_is_gone_before_it_is_read_is_a_member_that_cannot_be_read(tmp_path: Path) -> None:
    """Files come and go while a folder is searched."""
    write(tmp_path / "a.md")
    write(tmp_path / "b.md")
    listed = members(str(tmp_path))
    first = next(listed)
    (tmp_path / "b.md").unlink()
    second = next(listed)

    assert first.problem is None
    assert "does not exist" in str(second.problem)


def test_one_file_that_cannot_be_read_is_no_obstacle_to_the_others(tmp_path: Path) -> None:
    write(tmp_path / "a.md")
    with (tmp_path / "b.md").open("wb") as file:
        file.truncate(MAX_AGENT_FILE_BYTES + 1)
    write(tmp_path / "c.md")

    assert found(tmp_path) == ["a.md", "b.md", "c.md"]
