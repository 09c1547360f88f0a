"""A scope that no server of its category offers: what is like it, and where else it is offered."""

from agent_resolver import Server
from agent_resolver.core import ServerPool, UnknownScope, unknown_scopes
from agent_resolver.schema import Requirement


def server(name: str, categories: tuple[str, ...], *scopes: str) -> Server:
    return Server(name, "1", f"https://{name}.example", categories, scopes=scopes)


POOL = ServerPool(
    (
        server("a", ("crm",), "read:contacts", "write:contacts"),
        server("b", ("mail", "sales", "chat", "calls"), "send:mail", "read:contact"),
        server("c", ("files",)),
    )
)


def unknown(category: str, *scopes: str) -> tuple[UnknownScope, ...]:
    (found,) = unknown_scopes([Requirement(category=category, permissions=scopes)], POOL)
    return found


def test_a_wrong_scope_gets_similar_ones_and_the_first_categories_that_offer_it() -> None:
    assert unknown("crm", "read:contact", "read:contact", "write:contacts") == (
        UnknownScope("read:contact", ("read:contacts", "write:contacts"), ("calls", "chat", "mail")),
    )


def test_nothing_is_said_of_a_scope_of_which_nothing_is_known() -> None:
    assert unknown("crm", "zzz") == ()


def test_a_category_that_no_server_offers_gets_those_that_offer_the_scope() -> None:
    assert unknown("customers", "write:contacts") == (UnknownScope("write:contacts", (), ("crm",)),)


def test_each_requirement_has_its_own_answer() -> None:
    needs = [Requirement(category=category, permissions=("send:mail",)) for category in ("mail", "files")]

    assert [[found.scope for found in each] for each in unknown_scopes(needs, POOL)] == [[], ["send:mail"]]
