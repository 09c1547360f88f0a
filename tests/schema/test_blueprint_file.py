"""Files of blueprints: every fault has its place, and one blueprint has one spelling."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from msgspec import structs

from agent_resolver.schema import (
    BlueprintReading,
    InvalidBlueprint,
    blueprint_digest,
    encode_blueprint,
    parse_blueprint,
    plain,
    read_blueprint,
)
from tests.blueprints import REFUND, blueprint_documents
from tests.schema.sample import shown
from tests.strategies import FEW

SMALL = "blueprint_metadata: {id: a, version: 1.0.0, description: d}\ndag: {steps: [{id: one, capability: x}]}\n"


def read(text: str) -> BlueprintReading:
    return read_blueprint(text.encode(), is_json=False)


def with_step(keys: str) -> str:
    return SMALL.replace("{id: one, capability: x}", f"{{id: one, capability: x, {keys}}}")


def test_yaml_and_json_of_one_blueprint_are_the_same_value() -> None:
    from_yaml = read(REFUND)
    from_json = read_blueprint(json.dumps(plain(from_yaml.tree)).encode(), is_json=True)

    assert from_yaml.issues == from_json.issues == ()
    assert from_yaml.blueprint
    assert from_yaml.blueprint == from_json.blueprint
    assert (from_yaml.blueprint.id, from_yaml.blueprint.version) == ("tickets.refund", "1.2.0")


def test_a_blueprint_without_an_input_schema_takes_no_arguments() -> None:
    blueprint = parse_blueprint(SMALL.encode(), is_json=False).blueprint

    assert blueprint
    assert blueprint.dag.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}


def test_all_faults_of_a_file_arrive_together_each_with_its_place() -> None:
    text = """\
blueprint_metadata:
  id: a
  version: 1.0
dag:
  step: []
  steps:
    - id: Reserve
      capabilty: x
      timeout_seconds: 0
      retry: {max_attempts: 11, backoff: .inf}
      input_mapping: {a: .nan, b: [1, 99999999999999999999]}
    - {id: one, wait: {kind: people}}
dag2: {}
"""
    assert shown(read(text).issues) == [
        "2:3 blueprint_metadata.description: Required",
        '3:3 blueprint_metadata.version: Expected string, received number (quote it: "1.0")',
        "5:3 dag.step: Unknown key (`agent schema blueprint` has every key)",
        "7:7 dag.steps.0.id: Must be 1 to 64 small letters, digits and `_`, with a letter first",
        "8:7 dag.steps.0.capabilty: Unknown key (did you mean `capability`?)",
        "9:7 dag.steps.0.timeout_seconds: Must be more than 0 and at most 3600",
        "10:15 dag.steps.0.retry.max_attempts: Must be from 1 to 10",
        "10:33 dag.steps.0.retry.backoff: Number out of range",
        "11:26 dag.steps.0.input_mapping.a: Number out of range (quote it to make it a text)",
        "11:39 dag.steps.0.input_mapping.b.1: Number out of range (quote it to make it a text)",
        "12:24 dag.steps.1.wait.kind: Invalid enum value. Expected 'person' | 'signal' | 'time', received 'people'",
        "13:1 dag2: Unknown key (`agent schema blueprint` has every key)",
    ]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"- a\n", "Expected object, received array"),
        (b"dag: [\n", "Invalid YAML"),
        (b"\xff", "UTF-8"),
        (b"<<<<<<< ours\ndag: {}\n=======\ndag: []\n>>>>>>> theirs\n", "merge conflict"),
        (b"[" * 100, "deep"),
        (b"a: " + b"x" * 256 * 1024, "limit of 262,144 bytes"),
        (with_step('after: ["one\\n"]').encode(), "control characters"),
        (with_step("retry: {}, retry: {}").encode(), "Duplicate key"),
        (SMALL.replace("{id: one, capability: x}", "").encode(), "at least 1 element"),
    ],
)
def test_what_is_not_a_blueprint_is_refused(raw: bytes, words: str) -> None:
    with pytest.raises(InvalidBlueprint, match=words):
        parse_blueprint(raw, is_json=False)


def test_json_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidBlueprint) as caught:
        parse_blueprint(b'{"dag": 1,}', is_json=True)

    assert caught.value.issues[0].column == len('{"dag": 1,}')


def test_the_two_hundred_and_first_step_is_refused() -> None:
    steps = ", ".join(f"{{id: s{number}, capability: x}}" for number in range(201))

    assert shown(read(SMALL.replace("{id: one, capability: x}", steps)).issues) == [
        "2:7 dag.steps: Array must contain at most 200 element(s)"
    ]


@FEW
@given(document=blueprint_documents())
def test_writing_and_reading_gives_the_same_blueprint_and_bytes(document: Any) -> None:
    reading = read_blueprint(json.dumps(document).encode(), is_json=True)
    assert reading.blueprint, reading.issues
    written = encode_blueprint(reading.blueprint)

    again = parse_blueprint(written, is_json=True).blueprint
    assert again == reading.blueprint
    assert encode_blueprint(again) == written
    assert blueprint_digest(again) == blueprint_digest(reading.blueprint)
    # What a plain decoder makes of the bytes is the same: the program may read its own bytes without the walker.
    assert msgspec.json.decode(written, type=type(again)) == again


def test_a_default_that_is_written_out_changes_no_digest() -> None:
    plainly, explicitly = read(SMALL).blueprint, read(with_step("is_parallel: false, after: []")).blueprint

    assert plainly
    assert explicitly
    assert blueprint_digest(plainly) == blueprint_digest(explicitly)


def test_any_change_of_a_blueprint_changes_its_digest() -> None:
    blueprint = read(SMALL).blueprint
    assert blueprint
    renamed = structs.replace(
        blueprint, blueprint_metadata=structs.replace(blueprint.blueprint_metadata, description="e")
    )

    assert blueprint_digest(blueprint) != blueprint_digest(renamed)
    assert blueprint_digest(blueprint).startswith("sha256-")
