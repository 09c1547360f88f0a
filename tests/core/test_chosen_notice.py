"""Warnings about the servers that are chosen."""

from msgspec import structs

from agent_resolver import Server
from agent_resolver.core import ServerPool, chosen_notices
from agent_resolver.core.chosen_notice import has_notices
from agent_resolver.schema import IssueCode, Launch, Severity

PLAIN = Server("plain", "1.0.0", "https://mcp.example", ("tests",), ("use",))


def launched(*line: str) -> Server:
    return structs.replace(PLAIN, id="launched", launch=Launch(command=line[0], args=line[1:]))


def test_a_server_that_is_not_chosen_gets_no_warning() -> None:
    servers = (PLAIN, launched("npx", "pkg"))

    assert chosen_notices(ServerPool(servers), [PLAIN]) == []


def test_a_floating_package_is_a_warning_with_the_pinned_form() -> None:
    floating = launched("npx", "-y", "pkg")

    (issue,) = chosen_notices(ServerPool((PLAIN, floating)), [floating])

    assert (issue.code, issue.severity, issue.at) == (IssueCode.FLOATING_PACKAGE, Severity.WARNING, (1, "launch"))
    assert issue.message == (
        "`launched@1.0.0` is chosen, and can be another program tomorrow: `pkg` is fetched without a version"
    )
    assert issue.hint == "pin it: `npx -y pkg@1.0.0`"


def test_a_package_that_cannot_be_pinned_gets_other_advice() -> None:
    floating = launched("npx", "https://example.com/server.tgz")

    (issue,) = chosen_notices(ServerPool((floating,)), [floating])

    assert issue.hint == "install it at one version, and start what is installed"


def test_an_image_with_a_tag_is_a_hint() -> None:
    tagged = launched("docker", "run", "acme/server:1.2")

    (issue,) = chosen_notices(ServerPool((tagged,)), [tagged])

    assert (issue.code, issue.severity) == (IssueCode.TAG_WITHOUT_DIGEST, Severity.HINT)


def test_a_pinned_package_and_a_plain_command_get_no_warning() -> None:
    servers = (launched("npx", "pkg@1.2.3"), structs.replace(launched("python", "server.py"), id="other"))

    assert chosen_notices(ServerPool(servers), servers) == []


def test_a_server_has_notices_exactly_where_choosing_it_gives_one() -> None:
    assert has_notices(launched("npx", "pkg"))
    assert has_notices(structs.replace(PLAIN, status="deprecated"))
    assert not has_notices(PLAIN)


def test_a_deprecated_server_is_a_warning() -> None:
    deprecated = structs.replace(PLAIN, status="deprecated")

    (issue,) = chosen_notices(ServerPool((deprecated,)), [deprecated])

    assert (issue.code, issue.severity, issue.at) == (IssueCode.DEPRECATED_SERVER, Severity.WARNING, (0, "status"))


def test_drafted_scopes_are_counted() -> None:
    one = structs.replace(PLAIN, drafted=("b",))
    many = structs.replace(PLAIN, id="many", drafted=("d", "c", "b", "a"))

    first, second = chosen_notices(ServerPool((one, many)), [one, many])

    assert (first.code, first.severity, first.at) == (IssueCode.DRAFTED_SCOPES, Severity.WARNING, (0, "drafted"))
    assert first.message.endswith("the drafted scopes of 1 tool: `b`")
    assert second.message.endswith("the drafted scopes of 4 tools: `a`, `b`, `c` and 1 more")
    assert "`toolScopes` of `many` in mcp.overlay.yaml" in second.hint
