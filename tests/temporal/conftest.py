"""Real Temporal servers, one of each kind for each process of the suite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.temporal_server import TemporalServer, temporal_server

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """These need a Temporal server: they run only where this folder is named, as `make temporal` does."""
    named = [Path(argument.partition("::")[0]).resolve() for argument in config.args]
    return None if any(path.is_relative_to(HERE) for path in named) else True


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    """The server for development, on a file."""
    with temporal_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="session")
def skipping_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    """The server that skips time, all in memory."""
    with temporal_server(tmp_path_factory.mktemp("skipping"), skips_time=True) as running:
        yield running
