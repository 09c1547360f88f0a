"""Files that a command changes together are written all or none."""

from pathlib import Path

import pytest

from agent_resolver.project import FileChange, write_changes
from agent_resolver.storage import UnwritableFile


def test_nothing_stays_changed_if_one_file_cannot_be(tmp_path: Path) -> None:
    changed, moved, target = tmp_path / "changed", tmp_path / "moved", tmp_path / "target"
    changed.write_text("before")
    moved.write_text("content")
    moved.chmod(0o640)
    changes = [
        FileChange(path=str(changed), before=b"before", after=b"after"),
        FileChange(path=str(target), after=b"content"),
        FileChange(path=str(moved), before=b"content", mode=0o640),
        # A folder cannot be removed like a file.
        FileChange(path=str(tmp_path), before=b"x"),
    ]

    with pytest.raises(UnwritableFile, match="cannot be removed"):
        write_changes(changes, str(tmp_path), frozenset(), is_named=False)

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"changed": "before", "moved": "content"}
    assert moved.stat().st_mode & 0o777 == 0o640


def test_what_another_wrote_meanwhile_is_not_put_back(tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    changed.write_text("of another")
    changes = [
        FileChange(path=str(changed), before=b"before", after=b"after"),
        FileChange(path=str(changed / "below"), after=b"x"),
    ]

    with pytest.raises(UnwritableFile):
        write_changes(changes, str(tmp_path), frozenset(), is_named=False)

    assert changed.read_text() == "of another"
