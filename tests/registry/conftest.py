from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.registry.stage import Stage, in_place


@pytest.fixture
def anyio_backend() -> str:
    """The loop that the product runs in."""
    return "asyncio"


@pytest.fixture(params=["memory", "state file"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """Both places where things are kept."""
    with in_place(request.param, tmp_path) as made:
        yield made
