import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Everything here runs on asyncio, as the program does."""
    return "asyncio"
