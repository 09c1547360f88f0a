"""Every adapter of the ports for seals and secrets keeps the same promises."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.project import ProjectSecrets, SecretPlace
from agent_resolver.registry import MemorySecrets, OpenSeal, Seal, Secrets
from agent_resolver.storage import AesSeal


def run(*steps: Awaitable[Any]) -> list[Any]:
    """What these come to, one after the other."""

    async def story() -> list[Any]:
        return [await step for step in steps]

    return asyncio.run(story())


# Seals ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seal", [OpenSeal(), AesSeal(b"key")])
@pytest.mark.parametrize("content", [b"", b"content", bytes(range(256)) * 100])
def test_what_was_closed_opens_again(seal: Seal, content: bytes) -> None:
    assert seal.open(seal.close(content, "purpose"), "purpose") == content


# Secrets --------------------------------------------------------------------------------------------------------------


def in_memory(name: str, value: str | None, folder: Path) -> Secrets:
    return MemorySecrets({} if value is None else {name: value})


def in_environment(name: str, value: str | None, folder: Path) -> Secrets:
    return ProjectSecrets({}, {} if value is None else {name: value}, str(folder))


def in_file(name: str, value: str | None, folder: Path) -> Secrets:
    if value is not None:
        (folder / "secret").write_text(value + "\n")
    return ProjectSecrets({name: SecretPlace(file="secret")}, {}, str(folder))


@pytest.mark.parametrize("make", [in_memory, in_environment, in_file])
def test_a_secret_is_found_or_its_place_is_told_without_it(
    make: Callable[[str, str | None, Path], Secrets], tmp_path: Path
) -> None:
    missing = make("TOKEN", None, tmp_path)
    assert run(missing.get("TOKEN")) == [None]
    assert missing.place("TOKEN")

    there = make("TOKEN", "s3cr3t-value", tmp_path)
    assert run(there.get("TOKEN"), there.get("OTHER")) == ["s3cr3t-value", None]
    assert "s3cr3t" not in there.place("TOKEN")
