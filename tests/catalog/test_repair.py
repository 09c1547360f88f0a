"""Front matter that no YAML parser takes: what was meant is served, and what was fine stays to the letter."""

import re
import time
from collections import Counter

import pytest
import yaml
from hypothesis import example, given, strategies as st

from agent_resolver.catalog import Entry, read_entry, repaired
from agent_resolver.schema import Unreadable, parse_yaml, plain

LINES = st.sampled_from(
    [
        "name: a",
        "description: Use when: always",
        "description: fine",
        " model: sonnet",
        "\tmodel: sonnet",
        "      tools: x",
        "tools: [Read, Grep",
        "tools: {a: 1,",
        "  b: 2}",
        "tools:",
        "  - a",
        " - b: c: d",
        "- @e",
        "\t- f",
        "meta:",
        "  note: a: b",
        "    - deep: er: est",
        "description: |",
        "description: >-",
        "  text: with: colons",
        "text at the margin",
        'quote: "not closed',
        "quote: 'it's'",
        'quote: "a "b" c"',
        "star: *nobody",
        "at: @file",
        "tick: `code`",
        "percent: %x",
        "# a comment",
        "  # another",
        "",
        "   ",
        "? [a]",
        ": b",
        "{",
        "]",
        "Ünïcode: ä: ö",
        "separator: a\u2028b: c",
        "<example>",
        "user: \"hello\" assistant: 'x'",
        '"description": Reviews code: all of it',
        "'model' : a: b",
        "allowed tools: a: b",
        "name : a",
        "name:tight",
        "tools:[a, b]",
        'description: "a" and "b"',
        " name: pushed in",
        "\tdescription: d",
        "   - category: x",
        "     permissions: [a]",
        "    - category: y: z",
        "  -",
        "[a]: z",
        "http://x: y",
    ]
)
FRONT_MATTER = st.tuples(st.lists(LINES, max_size=12), st.sampled_from(["\n", "\r\n"])).map(
    lambda made: "".join(f"{line}{made[1]}" for line in made[0])
)


def read(text: str) -> object:
    """What a parser makes of it; None where it cannot."""
    try:
        return plain(parse_yaml(text))
    except Unreadable:
        return None


@pytest.mark.parametrize(
    ("broken", "meant"),
    [
        ("a: Use when: x\n", {"a": "Use when: x"}),
        ("a: b\n  c: d\n", {"a": "b", "c": "d"}),
        ("a: x: y\n   c: d\ne: f\n", {"a": "x: y", "c": "d", "e": "f"}),
        ("name: b\n\tmodel: d\n", {"name": "b", "model": "d"}),
        ("name: b\n        model: d\n", {"name": "b", "model": "d"}),
        ("a: x: y\n  goes on\n  here\n", {"a": "x: y goes on here"}),
        ("a: x: y\nat the margin\nc: d\n", {"a": "x: y at the margin", "c": "d"}),
        ("a: x: y\n        Note: z\n", {"a": "x: y Note: z"}),
        ('a: "not closed\nc: d\n', {"a": "not closed", "c": "d"}),
        ("a: 'it's'\n", {"a": "it's"}),
        ('a: "he said "no" twice"\n', {"a": 'he said "no" twice'}),
        ("a: [x] [y]\n", {"a": "[x] [y]"}),
        ("a: @x\n", {"a": "@x"}),
        ("a: `x`\n", {"a": "`x`"}),
        ("a: *x\n", {"a": "*x"}),
        ("a: %x\n", {"a": "%x"}),
        ("a: x\u2028y\n", {"a": "x y"}),
        ("a:\n  - b\n - c\n   - d\n", {"a": ["b", "c", "d"]}),
        ("a:\n  - b: c: d\n  - `e`\n  - f\n", {"a": ["b: c: d", "`e`", "f"]}),
        ("a:\n\t- b\n\t- c\n", {"a": ["b", "c"]}),
        ("a:\n  - b\n - c\n  # aside\n\n  -\n", {"a": ["b", "c", None]}),
        ("a: |\ntext at the margin\nb: c\n", {"a": "text at the margin\n", "b": "c"}),
        ("a: >-\n    one\n  two\nb: c\n", {"a": "one two", "b": "c"}),
        ("m:\n  a: x: y\n  b: c\n", {"m": {"a": "x: y", "b": "c"}}),
        ("m:\n    a: b\n      c: d\n", {"m": {"a": "b", "c": "d"}}),
        ("m:\n\ta: b\n\tc: d\n", {"m": {"a": "b", "c": "d"}}),
        ("a: {\n  b: 1\n}\nc: x: y\n", {"a": {"b": 1}, "c": "x: y"}),
        ('a: "one\n  b: two"\nc: x: y\n', {"a": "one b: two", "c": "x: y"}),
        ("a: |\n  b: c\nd: x: y\n", {"a": "b: c\n", "d": "x: y"}),
        ("a:\tx: y\n", {"a": "x: y"}),
        ('a: b\n"c": d: e\nf: g\n', {"a": "b", "c": "d: e", "f": "g"}),
        ("a: b\n'c': d: e\nf: g\n", {"a": "b", "c": "d: e", "f": "g"}),
        ("a: b\nc d: e: f\n", {"a": "b", "c d": "e: f"}),
        ("a: x: y\nc d: e\n", {"a": "x: y", "c d": "e"}),
        ("a: x: y\nÄ ö: e\n", {"a": "x: y", "Ä ö": "e"}),
        ("a: x: y\n$b: e\n", {"a": "x: y", "$b": "e"}),
        ("a: x: y\n- b: c\n", {"a": "x: y - b: c"}),
        ("a: x: y\nsee http://z: e\n", {"a": "x: y", "see http://z": "e"}),
        ("a: b\nsome text # here: x\n", {"a": "b some text # here: x"}),
        ("a : b: c\n", {"a": "b: c"}),
        ('a: "b" and "c"\n', {"a": '"b" and "c"'}),
        ("a: 'b', 'c'\n", {"a": "'b', 'c'"}),
        (" a: b\nc: d\n", {"a": "b", "c": "d"}),
        ("# why\n\n  a:\n    - b\nc: d\n", {"a": ["b"], "c": "d"}),
        ("\ta: b\n\tc: d\n\te:\n\t\t- f\n", {"a": "b", "c": "d", "e": ["f"]}),
        (" a: b\n c: d: e\n", {"a": "b", "c": "d: e"}),
        ("name:b\nc: d\n", {"name": "b", "c": "d"}),
        ("c: d\ntools:[a, b]\n", {"c": "d", "tools": ["a", "b"]}),
        ("  name:b\nc: d\n", {"name": "b", "c": "d"}),
        (
            "a:\n   - b: c\n     d: [e]\n    - b: f\n      d:\n      - g\n",
            {"a": [{"b": "c", "d": ["e"]}, {"b": "f", "d": ["g"]}]},
        ),
        (
            "m:\n  a:\n   - b: c\n     d: e\n  - b: f\n    d: g: h\n",
            {"m": {"a": [{"b": "c", "d": "e"}, {"b": "f", "d": "g: h"}]}},
        ),
        ("a:\n  # why\n  - b: c: d\n    e: f\n\n  -\n    b: `g`\n", {"a": [{"b": "c: d", "e": "f"}, {"b": "`g`"}]}),
        ("a:\n\t- b: c\n\t  d: e\n", {"a": [{"b": "c", "d": "e"}]}),
    ],
)
def test_what_was_meant_is_plain(broken: str, meant: dict[str, object]) -> None:
    assert read(broken) is None
    assert read(repaired(broken)) == meant
    with_returns = broken.replace("\n", "\r\n")
    assert read(repaired(with_returns)) == meant


def test_every_line_that_was_fine_stays_to_the_letter() -> None:
    fine = ["# head\r\n", "name:   a  # why\r\n", "\r\n", "tools: [a,\r\n", "  b]\r\n", "# tail\r\n", "model: 'x'\r\n"]

    mended = repaired("".join([*fine[:3], "description: x: y\r\n", *fine[3:6], "at: @x\r\n", *fine[6:]]))

    assert mended == "".join([*fine[:3], 'description: "x: y"\r\n', *fine[3:6], 'at: "@x"\r\n', *fine[6:]])


@pytest.mark.parametrize(
    "hopeless", ["{\n", "- a\nb: c: d\n", "text\nmore: text: here\n", "m:\n  a\n  b: c\n", "\x07: x\n"]
)
def test_what_no_rule_fits_is_left_for_the_parser_to_say(hopeless: str) -> None:
    assert read(repaired(hopeless)) is None


@given(FRONT_MATTER)
def test_what_is_yaml_with_keys_is_left_alone(text: str) -> None:
    if isinstance(read(text), dict):
        assert repaired(text) == text


def test_keys_without_a_blank_behind_the_colon_are_no_text() -> None:
    assert read("name:a\ndescription:b\n") == "name:a description:b"
    assert repaired("name:a\ndescription:b\n") == "name: a\ndescription: b\n"
    assert repaired("http://x\nother:y\n") == "http://x\nother:y\n"


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text))


@given(FRONT_MATTER)
def test_no_word_is_lost(text: str) -> None:
    assert words(text) == words(repaired(text))


@given(FRONT_MATTER)
def test_a_strict_parser_takes_every_repair(text: str) -> None:
    mended = repaired(text)

    assert mended == text or is_strict(mended)


def is_strict(text: str) -> bool:
    """True if each key is given once and only indented lines go on with a value, as YAML 1.2 asks."""
    document = yaml.compose(text, Loader=yaml.SafeLoader)
    nodes = [document]
    for node in nodes:
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value]
            if len(set(keys)) < len(keys):
                return False
            nodes += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value
    values = [value for _, value in document.value]
    lines = text.splitlines()
    return all(
        line.startswith(" ")
        for value in values
        if getattr(value, "flow_style", None) or getattr(value, "style", None) in {'"', "'"}
        for line in lines[value.start_mark.line + 1 : value.end_mark.line + 1]
        if line.strip()
    )


OPENINGS = [
    "description: Use this agent to plan trips. Examples:",
    "description: Use when: the traveller asks",
    "description: |\n  Use this agent to plan trips.\nTrains only.",
    'description: "Use this "agent" to plan trips',
]
DIALOGUES = [
    'user: "Book a train"\nassistant: "I start the planner"\n',
    'user: "Book"\nassistant: "Yes"\nuser: "Two seats"\nassistant: "Done: two"\n',
    "<example>\nContext: A trip to Rome.\nuser: 'Book it'\nassistant: 'Booked'\n</example>\n",
    "<example>\nname: Ann\nmodel: old\n</example>\n\n<example>\nname: Bob\n</example>\n",
    "- user: Book\n- assistant: Booked\nNote: never guess\nTwo words: here\n",
    '  user: "Book a train"\n  assistant: "Booked"\n',
    "\n# Examples\nuser: Book\n<commentary>\nIt asks, so: plan\nreason: clear\n</commentary>\n",
    "Examples follow\nfirst: Book\nfirst: Ask\nlast: Book\n",
]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("dialogue", DIALOGUES)
@pytest.mark.parametrize("opening", OPENINGS)
def test_dialogue_in_a_description_stays_in_the_description(opening: str, dialogue: str, ending: str) -> None:
    text = f"name: planner\n{opening}\n{dialogue}model: sonnet\ntools: [Read]\n".replace("\n", ending)
    assert read(text) is None

    mended = repaired(text)

    found = read(mended)
    assert isinstance(found, dict)
    assert list(found) == ["name", "description", "model", "tools"]
    assert words(found["description"]) == words(f"{opening}\n{dialogue}".partition(":")[2])
    assert (found["name"], found["model"], found["tools"]) == ("planner", "sonnet", ["Read"])
    assert is_strict(mended)


@pytest.mark.parametrize("key", ["constraints", "constrains", "permissions", "disallowedTools", "disalowedTools"])
def test_a_key_that_limits_the_agent_is_never_taken_for_prose(key: str) -> None:
    found = read(repaired(f"name: a\ndescription: Examples:\nuser: hi\nand so on\n{key}: [Bash]\n"))

    assert found == {"name": "a", "description": "Examples: user: hi and so on", key: ["Bash"]}


@pytest.mark.parametrize(
    "ambiguous", ["name: a\nname: b\nat: @x\n", "m:\n  a: x: y\n  a: z\n", "description: x: y\nmodel: a\nmodel: b\n"]
)
def test_a_repair_with_a_repeated_key_is_not_offered(ambiguous: str) -> None:
    assert repaired(ambiguous) == ambiguous


def test_brackets_and_quotes_at_the_margin_are_pushed_in() -> None:
    mended = repaired('at: @x\ntools: [\n"a",\n]\nsaid: "one\ntwo"\n')

    assert mended == 'at: "@x"\ntools: [\n  "a",\n  ]\nsaid: "one\n  two"\n'


@given(FRONT_MATTER)
def test_a_repaired_file_reads_as_the_broken_one_was_served(text: str) -> None:
    def known(front_matter: str) -> dict[str, object] | None:
        found = read_entry(f"---\n{front_matter}---\nBody\n".encode(), "stem")
        if not isinstance(found, Entry):
            return None
        about_the_bytes = {"digest", "size", "tokens", "body_at", "issues"}
        return {key: getattr(found, key) for key in found.__struct_fields__ if key not in about_the_bytes}

    assert known(text) == known(repaired(text))


@given(FRONT_MATTER)
@example("/\x01: \x01")
@example('"a\x01": b: c')
@example("a\x02: x: y")
@example("name:\x01\x7f\x85\u2028\ufeff\uffff")
def test_to_repair_twice_is_to_repair_once(text: str) -> None:
    once = repaired(text)

    assert repaired(once) == once


FINE = st.lists(
    st.sampled_from(
        [
            "name: a\n",
            "# aside\n",
            "\n",
            "allowed: [a,\n  b: c]\n",
            "tools: {\n  b: 1\n }\n",
            'said: "one\n  b: two"\n',
            "text: |\n  b: c: d\n\n  e\n",
            "list:\n- a\n- b: c\n",
            "items:\r\n    - a\r\n",
            "map:\n   a: {b: c}\n   d:   # why\n     - e\n",
            "long: plain\n  goes on\n",
        ]
    ),
    max_size=8,
    unique=True,
)


@given(parts=FINE, place=st.integers(0, 8))
def test_a_broken_line_between_fine_parts_touches_none(parts: list[str], place: int) -> None:
    before, after = "".join(parts[:place]), "".join(parts[place:])

    assert repaired(f"{before}broken: x: y\n{after}") == f'{before}broken: "x: y"\n{after}'


@pytest.mark.parametrize(
    "text",
    [
        "a: b: x" + " " * 200_000 + "y\n",
        "a: b: c\n" + " " * 200_000 + "\n",
        "a:\n" + "  - x" + " " * 100_000 + "y: z: w\n",
        "a:\n" * 80_000 + "b: c: d\n",
        "a: '\n" * 50_000,
        "a:\n" + " - '\n" * 50_000,
        "\t" * 200_000 + "a: b: c\n",
        "a" * 200_000 + ": b: c\n",
        "".join(f"{' ' * level}a:\n" for level in range(600)) + "x: y: z\n",
        "a: b: c\nd" + " e" * 100_000 + "\n",
        "a: b: c\nd" + " #" * 100_000 + "\n",
        "a: b: c\n" + '"' + "\\" * 200_000 + "\n",
        "a: b: c\na" + " " * 200_000 + "b\n",
        "a:\n" + " - b: c: d\n   e: f\n" * 900,
        "a:\n" + "".join(f"{' ' * level}- b: c: d\n" for level in range(600)) + " x\n",
    ],
    ids=range(15),
)
def test_hostile_front_matter_takes_no_longer_than_its_length(text: str) -> None:
    start = time.process_time()
    repaired(text)

    assert time.process_time() - start < 5
