"""Drawings of blueprints: whole snapshots, and what a hostile name must not do to them."""

from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest

from agent_resolver.core import draw_svg, draw_text
from agent_resolver.schema import Blueprint, parse_blueprint
from tests.blueprints import REFUND

WIDE = """\
blueprint_metadata: {{id: wide, version: {version}, description: '{description}'}}
dag:
  steps:
    - {{id: start, wait: {{kind: time, seconds: 1.5}}}}
    - {{id: until, wait: {{kind: time, until: '2030-01-01'}}}}
    - {{id: paid, wait: {{kind: signal, signal: payment, timeout_seconds: 3600}}}}
{group}
    - {{id: late, capability: x, is_parallel: true, after: [s0], retry: {{max_attempts: 2}},
       for_each: {{items: '${{steps.s0}}', max_items: 500, batch_size: 50}}}}
    - {{id: end}}
"""
GROUP = "\n".join(f"    - {{id: s{number}, capability: x, is_parallel: true}}" for number in range(8))


def blueprint_of(text: str) -> Blueprint:
    blueprint = parse_blueprint(text.encode(), is_json=False).blueprint
    assert blueprint
    return blueprint


def wide(version: str = "2", description: str = "Many at once") -> Blueprint:
    return blueprint_of(WIDE.format(version=f"'{version}'", description=description, group=GROUP))


def test_drawing_of_the_example(snapshot: Callable[[object], None]) -> None:
    snapshot(draw_text(blueprint_of(REFUND)))


def test_drawing_of_a_wide_blueprint(snapshot: Callable[[object], None]) -> None:
    snapshot(draw_text(wide()))


def test_drawing_in_ascii(snapshot: Callable[[object], None]) -> None:
    text = draw_text(blueprint_of(REFUND.replace("It moves money", f"Él mueve dinero {'x' * 90}")), is_ascii=True)

    assert text.isascii()
    snapshot(text)


def test_svg_of_the_example(snapshot: Callable[[object], None]) -> None:
    snapshot(draw_svg(blueprint_of(REFUND)))


def test_svg_of_a_wide_blueprint(snapshot: Callable[[object], None]) -> None:
    snapshot(draw_svg(wide()))


def test_a_drawing_of_the_same_blueprint_is_the_same_bytes() -> None:
    assert draw_svg(wide()) == draw_svg(wide())
    assert draw_text(wide()) == draw_text(wide())


@pytest.mark.parametrize("hostile", ["</text><script>alert(1)</script>", '" onload="alert(1)', "]]>&amp;<!--"])
def test_words_of_a_blueprint_stay_text_in_the_svg(hostile: str) -> None:
    tree = ET.fromstring(draw_svg(wide(version=hostile, description=hostile)))  # noqa: S314 - our own bytes

    names = {element.tag.rpartition("}")[2] for element in tree.iter()}
    assert names == {"svg", "title", "desc", "style", "rect", "text", "g", "path"}
    assert tree[0].text == f"wide {hostile}"
    assert not [key for element in tree.iter() for key in element.attrib if key.startswith("on")]


def test_a_character_that_turns_the_direction_of_text_is_marked() -> None:
    blueprint = wide(version="a\u202eb", description="\u202e")

    assert draw_text(blueprint).startswith("wide a�b\n")
    assert "\u202e" not in draw_svg(blueprint)


def test_no_box_of_the_svg_is_outside_of_it() -> None:
    tree = ET.fromstring(draw_svg(wide()))  # noqa: S314 - our own bytes
    width, height = int(tree.attrib["width"]), int(tree.attrib["height"])
    boxes = [box.attrib for box in tree.iter() if "rx" in box.attrib]

    assert len(boxes) == len(wide().dag.steps)
    assert all(int(box["x"]) >= 0 and int(box["x"]) + int(box["width"]) <= width for box in boxes)
    assert all(int(box["y"]) + int(box["height"]) <= height for box in boxes)
