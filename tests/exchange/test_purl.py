"""Package URLs of launch records."""

import pytest

from agent_resolver.exchange import package_url_of
from agent_resolver.schema import Launch

CASES = {
    "npx -y @scope/server@1.2.3 --flag": "pkg:npm/%40scope/server@1.2.3",
    "/usr/bin/npx server@1.0.0-beta.1": "pkg:npm/server@1.0.0-beta.1",
    "uvx Mcp_Server.Git==2025.1.1": "pkg:pypi/mcp-server-git@2025.1.1",
    "uvx server[cli]@1.0": "pkg:pypi/server@1.0",
    "npx -y server": None,
    "npx -y server@latest": None,
    "npx -y server@^1.2.3": None,
    "npx --package other@1.0.0 server": None,
    "uvx --from other==1 server": None,
    "npx": None,
    "python server.py": None,
}


@pytest.mark.parametrize(("line", "expected"), CASES.items())
def test_a_package_that_is_plainly_pinned_has_a_package_url(line: str, expected: str | None) -> None:
    command, *arguments = line.split()

    assert package_url_of(Launch(command=command, args=tuple(arguments))) == expected
