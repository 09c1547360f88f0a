"""A whole cluster on this machine takes minutes: it runs only where this folder is named, as `make cluster` does."""

from pathlib import Path

import pytest

# The checks are in a module of their own, whose assertions should say as much as those of a test.
pytest.register_assert_rewrite("tests.cluster.check")
HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    named = [Path(argument.partition("::")[0]).resolve() for argument in config.args]
    return None if any(path.is_relative_to(HERE) for path in named) else True
