import pytest
from hypothesis import given, strategies as st
from opentelemetry.trace import TraceState

from agent_resolver.telemetry import Parent, format_parent, parse_parent, parse_state, parse_trace_id

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (f"00-{TRACE}-{SPAN}-01", 1),
        (f"00-{TRACE}-{SPAN}-00", 0),
        (f"00-{TRACE}-{SPAN}-03", 3),
        (f"00-{TRACE}-{SPAN}-ff", 3),
        (f"01-{TRACE}-{SPAN}-01", 1),
        (f"cc-{TRACE}-{SPAN}-01-what-comes-later", 1),
    ],
)
def test_a_traceparent_names_a_trace_a_span_and_whether_it_is_kept(text: str, flags: int) -> None:
    assert parse_parent(text) == Parent(int(TRACE, 16), int(SPAN, 16), flags)


@pytest.mark.parametrize(
    "text",
    [
        "",
        TRACE,
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01-",
        f"00-{TRACE}-{SPAN}-01 ",
        f"00-{TRACE}-{SPAN}-01\n",
        f" 00-{TRACE}-{SPAN}-01",
        f"0-{TRACE}-{SPAN}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN.upper()}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0x",
        f"00-{TRACE[:-1]}\N{ARABIC-INDIC DIGIT ONE}-{SPAN}-01",
        f"01-{TRACE}-{SPAN}-01-{'a' * 500}",
    ],
)
def test_what_is_no_traceparent_is_ignored(text: str) -> None:
    assert parse_parent(text) is None


@given(st.text(max_size=600))
def test_no_text_breaks_it(text: str) -> None:
    assert parse_parent(text) is None
    assert parse_parent(f"00-{TRACE}-{SPAN}-{text}") in {None, parse_parent(f"00-{TRACE}-{SPAN}-00")} or len(text) == 2


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 3))
def test_a_traceparent_that_is_written_is_read_again(trace_id: int, span_id: int, flags: int) -> None:
    assert parse_parent(format_parent(trace_id, span_id, flags)) == Parent(trace_id, span_id, flags)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a=b", "a=b"),
        ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
        (" a=b\t,, c=d", "a=b,c=d"),
        ("1tenant@system=x y!~", "1tenant@system=x y!~"),
        ("a_-*/0=;:<>", "a_-*/0=;:<>"),
        (f"{'a' * 256}={'b' * 200}", f"{'a' * 256}={'b' * 200}"),
        (",".join(f"k{number}=1" for number in range(32)), ",".join(f"k{number}=1" for number in range(32))),
    ],
)
def test_a_tracestate_is_a_list_of_members(text: str, kept: str) -> None:
    assert parse_state(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "a",
        "a=",
        "=b",
        "a=b=c",
        "A=b",
        "1a=b",
        "a=b,a=c",
        "a=b\n",
        "a=é",
        "é=a",
        f"{'a' * 257}=b",
        f"a={'b' * 257}",
        f"{'a' * 242}@b=c",
        f"a@{'b' * 15}=c",
        ",".join(f"k{number}=1" for number in range(33)),
        f"a=b,{' ' * 9000}",
    ],
)
def test_what_is_no_tracestate_is_ignored(text: str) -> None:
    assert parse_state(text) == ""


def test_a_tracestate_that_is_too_long_loses_its_long_members_and_then_its_last() -> None:
    short = [f"k{number}={'v' * 60}" for number in range(10)]
    long = f"long={'v' * 200}"

    assert parse_state(",".join([long, *short])) == ",".join(short[:8])
    assert parse_state(",".join([*short[:3], long])) == ",".join([*short[:3], long])


@given(st.text("ab=,@ \t1_é", max_size=700))
def test_what_is_handed_on_of_a_tracestate_is_bounded_and_what_others_read(text: str) -> None:
    kept = parse_state(text)

    assert len(kept) <= 512
    assert parse_state(kept) == kept == TraceState.from_header([kept]).to_header()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TRACE, int(TRACE, 16)),
        ("0" * 32, 0),
        ("", 0),
        ("trace", 0),
        (TRACE.upper(), 0),
        (TRACE[:-1], 0),
        (f"{TRACE}0", 0),
        (f"0x{TRACE[2:]}", 0),
        (f"{TRACE[:-1]}\n", 0),
        (f"{TRACE[:15]}_{TRACE[16:]}", 0),
    ],
)
def test_a_trace_id_has_32_hexadecimal_digits(text: str, expected: int) -> None:
    assert parse_trace_id(text) == expected
