"""What the resolver knows of a server, and the order it keeps servers in."""

from hypothesis import given
from msgspec import UNSET, json, structs

from agent_resolver import Server, parse_index, servers_of
from agent_resolver.core import by_category, in_order
from agent_resolver.core.server import ServerPool, pool_of
from agent_resolver.schema import IndexEntry, Launch, ServerData, ServerPolicy, ServerTrust
from tests.core.strategies import LAW, Case, solvable_cases


def server(server_id: str, version: str, *categories: str) -> Server:
    return Server(server_id, version, "https://mcp.example", categories, ())


def entry_of(stated: Server) -> IndexEntry:
    """The index entry that states a server; it leaves out what is not known."""
    return IndexEntry(
        id=stated.id,
        version=stated.version,
        endpoint=UNSET if stated.launch else stated.endpoint,
        categories=stated.categories,
        scopes=UNSET if stated.scopes is None else stated.scopes,
        data=ServerData(
            residency=UNSET if stated.residency is None else stated.residency,
            max_sensitivity=stated.max_sensitivity or UNSET,
        ),
        trust=ServerTrust(
            signed=UNSET if stated.signed is None else stated.signed,
            publisher=UNSET if stated.publisher is None else stated.publisher,
        ),
        launch=stated.launch or UNSET,
        tool_scopes=dict(stated.tool_scopes or {}) or UNSET,
        status=stated.status,
        transport=stated.transport,
        tools=UNSET if stated.tools is None else dict(stated.tools),
    )


@LAW
@given(solvable_cases())
def test_servers_survive_being_written_to_an_index_and_read(case: Case) -> None:
    written = json.encode([entry_of(each) for each in case.servers])

    assert servers_of(parse_index(written)) == tuple(
        structs.replace(each, tool_scopes=each.tool_scopes or None) for each in case.servers
    )


def test_a_rate_limit_is_known_only_where_the_index_states_it() -> None:
    entry = entry_of(server("acme", "1.0.0"))
    policies = [UNSET, ServerPolicy(), ServerPolicy(rate_limit_per_min=600)]
    entries = tuple(structs.replace(entry, policy=policy) for policy in policies)

    assert [each.rate_limit_per_minute for each in servers_of(entries)] == [None, None, 600]


def test_a_server_is_named_by_id_and_version() -> None:
    assert str(server("acme", "1.0.0")) == "acme@1.0.0"


def test_the_address_of_a_server_that_is_started_is_the_digest_of_its_launch_record() -> None:
    launch = Launch(command="acme")
    called = server("acme", "1.0.0")
    started = structs.replace(called, endpoint="", launch=launch)

    assert called.address == "https://mcp.example"
    assert started.address == launch.endpoint
    assert structs.replace(started, endpoint="https://other.example").address == "https://other.example"
    assert structs.replace(started, launch=None).address == ""


def test_servers_come_by_id_and_then_version_as_text() -> None:
    listed = [
        server("b", "1"),
        server("a", "9"),
        server("a", "10"),
        server("B", "2"),
        server("é", "0"),
        server("z", "0"),
    ]

    assert [str(each) for each in in_order(listed)] == ["B@2", "a@10", "a@9", "b@1", "z@0", "é@0"]


def test_each_category_lists_each_of_its_servers_once_in_order() -> None:
    listed = [server("b", "1", "y", "x", "y"), server("a", "1", "x"), server("c", "1"), server("a", "2", "Z")]

    grouped = by_category(listed)

    assert {category: [str(each) for each in found] for category, found in grouped.items()} == {
        "Z": ["a@2"],
        "x": ["a@1", "b@1"],
        "y": ["b@1"],
    }
    assert list(grouped) == ["Z", "x", "y"]


def test_servers_that_can_be_chosen_from_already_stay_as_they_are() -> None:
    pool = ServerPool((server("a", "1"),))

    assert pool_of(pool) is pool
