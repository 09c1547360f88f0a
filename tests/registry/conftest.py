import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The loop that the product runs in."""
    return "asyncio"
