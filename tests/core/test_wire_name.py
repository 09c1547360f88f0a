"""Names on the wire fit what clients take, and lead back to one id each."""

import re

import pytest
from hypothesis import example, given, strategies as st

from agent_resolver.core import MAX_TOOL_NAME, from_wire_name, is_usable_name, to_wire_name
from tests.strategies import MANY

FITS = re.compile(r"[A-Za-z0-9_-]{1,64}")
LONG = "archive.export_every_ticket_of_a_customer_with_all_its_attachments_and_comments"

crowded = st.text("ab._-/", min_size=1, max_size=8)
"""Ids that differ in little more than what their names have in common."""
printable = st.text(min_size=1, max_size=2 * MAX_TOOL_NAME).filter(str.isprintable)
ids = crowded | printable | st.builds("{}.{}".format, crowded, printable)
lookalikes = ids | ids.map(to_wire_name) | ids.map(to_wire_name).map(to_wire_name)
"""Ids, and ids that are spelled like the names of others."""


@pytest.mark.parametrize(
    ("tool_id", "name"),
    [
        ("hello.echo", "hello__echo"),
        ("list_agents", "list_agents"),
        ("github.create_issue", "github__create_issue"),
        ("golden.crm.find-customer", "golden__crm__find-customer"),
        ("team/reviewer", "team____reviewer"),
        ("a..b", "a____b___"),
        ("a__b", "a__b___mps4drcv2aovzpf23uqfiq5frk"),
        ("a_.b", "a___b___"),
        ("a._b", "a___b___"),
        (LONG, "archive__export_every_ticket_of_a_c___"),
        ("files.read file", "files__read_file___"),
        ("größe.maß", "gr__e__ma___"),
        ("…", "___"),
    ],
)
def test_a_name_can_be_recognised(tool_id: str, name: str) -> None:
    assert to_wire_name(tool_id).startswith(name)


@MANY
@given(ids)
@example("\ud800")
@example("")
def test_every_name_fits_what_clients_take(tool_id: str) -> None:
    assert FITS.fullmatch(to_wire_name(tool_id))


@MANY
@given(lookalikes, lookalikes)
@example("a.b", "a__b")
@example("a_b", "a.b")
@example("a_.b", "a._b")
@example("a___b", "a_.b")
@example("a.b.", "a.b_")
@example("a/b", "a..b")
@example("a./b", "a/.b")
@example(LONG, to_wire_name(LONG))
@example(f"{LONG}1", f"{LONG}2")
@example("a b", "a/b")
def test_two_ids_never_share_a_name(one: str, other: str) -> None:
    assert (to_wire_name(one) == to_wire_name(other)) == (one == other)


@MANY
@given(st.lists(lookalikes, min_size=1, max_size=8))
@example(["a.b", "a__b", to_wire_name("a__b"), to_wire_name(to_wire_name("a__b"))])
@example([to_wire_name(LONG), LONG])
def test_a_served_name_leads_back_to_its_id_whatever_else_is_served(known: list[str]) -> None:
    assert [from_wire_name(to_wire_name(tool_id), known) for tool_id in known] == known


def test_text_that_cannot_be_a_name_is_taken_for_an_id() -> None:
    assert from_wire_name("files.read file", ["files.read"]) == "files.read file"


@MANY
@given(lookalikes, st.lists(lookalikes, max_size=8))
@example("a__b", ["a__b"])
@example(to_wire_name("a__b"), [to_wire_name("a__b")])
@example("a.b", ["a.b", "a__b"])
def test_text_that_leads_to_an_id_leads_to_it_whatever_else_is_served(text: str, others: list[str]) -> None:
    """A client that calls by id is understood unless its text could be a name; then it is one."""
    meant = from_wire_name(text, others)

    assert meant is None or meant == text or to_wire_name(meant) == text
    if not FITS.fullmatch(text):
        assert meant == text
    elif meant is not None:
        assert to_wire_name(meant) == text
    else:
        assert text not in map(to_wire_name, others)


@pytest.mark.parametrize("tool_id", ["a__b", "a___b", to_wire_name(LONG)])
def test_an_id_spelled_like_a_name_is_called_by_its_own_name_alone(tool_id: str) -> None:
    assert from_wire_name(tool_id, [tool_id]) != tool_id
    assert from_wire_name(to_wire_name(tool_id), [tool_id]) == tool_id


@MANY
@given(printable)
def test_every_usable_tool_name_of_a_server_has_a_to_wire_name(tool: str) -> None:
    if is_usable_name(tool):
        assert from_wire_name(to_wire_name(f"server.{tool}"), [f"server.{tool}"]) == f"server.{tool}"
