"""The file of the engine, as DBOS is given it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.engine import EngineBroken
from tests.engine.test_dbos_system import finish, opened, three_steps


def test_a_file_of_another_kind_is_an_error_with_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    path.write_text("no database\n" * 100, encoding="utf-8")

    async def scenario() -> None:
        with pytest.raises(EngineBroken) as found:
            async with opened(path, finish):
                pass
        assert "delete the file" in found.value.hint

    asyncio.run(scenario())


def test_a_name_with_odd_characters_is_the_name_of_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "a b?mode=memory&x%20#y.db"

    async def scenario() -> Any:
        async with opened(path, three_steps) as made:
            await made.system.start("r:0")
            return await made.wait_for("r:0")

    assert len(asyncio.run(scenario())) == 3
    assert path.is_file()
    assert path.stat().st_mode & 0o777 == 0o600
