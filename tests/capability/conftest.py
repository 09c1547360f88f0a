from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process import assert_none_is_left


@pytest.fixture
def anyio_backend() -> str:
    """The loop that the product runs in."""
    return "asyncio"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where processes are started; when the test is over, none of them runs."""
    yield tmp_path
    assert_none_is_left(tmp_path)
