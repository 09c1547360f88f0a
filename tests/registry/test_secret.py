"""Secrets: who is given them, and that nobody sees them in what is told."""

import base64
import copy
import html
import json
import pickle
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape, quoteattr

import msgspec
import pytest
from hypothesis import given, strategies as st

from agent_resolver.core import MASK
from agent_resolver.registry import CallContext, MemorySecrets, NeedsAction, Secret, ToolFailure, redacted
from agent_resolver.schema import Done, Failed, FailureCode, Pending, Rules, local_caller
from tests.registry.sample import MemoryTool
from tests.registry.stage import Stage, code_of, in_memory

VALUE = 's3cr3t/with +odd="chars" é'
ODD = "<it's> & \\'back\\' \"both\"\x7fq"
SECRET = Secret("KEY", VALUE)
ADA = local_caller("ada")

# The value itself -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        "{}".format,
        "%s".__mod__,
        ascii,
        lambda secret: repr([secret]),
        lambda secret: repr({"key": secret}),
        lambda secret: repr(CallContext(run="r", trace_id="t", caller=ADA, secrets={"KEY": secret})),
    ],
)
def test_a_secret_shows_its_name_and_never_its_value(show: Callable[[Secret], str]) -> None:
    shown = show(SECRET)

    assert "KEY" in shown
    assert "s3cr3t" not in shown


@pytest.mark.parametrize(
    "write",
    [
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        msgspec.json.encode,
        msgspec.msgpack.encode,
        msgspec.to_builtins,
        json.dumps,
        vars,
        Secret.__getstate__,
    ],
)
def test_a_secret_is_not_written_anywhere(write: Callable[[Secret], object]) -> None:
    with pytest.raises(TypeError) as refused:
        write(SECRET)

    assert "s3cr3t" not in str(refused.value)


def test_whoever_needs_the_value_asks_for_it() -> None:
    assert SECRET.reveal() == VALUE
    assert SECRET.name == "KEY"


# What is masked -------------------------------------------------------------------------------------------------------


def lowered(quoted: str) -> str:
    return "".join(part.lower() if part.startswith("%") else part for part in quoted.replace("%", "\0%").split("\0"))


FORMS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "in a sentence": "the key is {}, keep it".format,
    "twice": "{0}{0}".format,
    "repeated in JSON": json.dumps,
    "in JSON with its letters": lambda value: json.dumps(value, ensure_ascii=False),
    "percent-encoded": lambda value: quote(value, safe=""),
    "percent-encoded as a path": quote,
    "percent-encoded as a form": quote_plus,
    "Base64": lambda value: base64.b64encode(value.encode()).decode(),
    "Base64 without padding": lambda value: base64.b64encode(value.encode()).decode().rstrip("="),
    "URL-safe Base64": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    "Basic authentication": lambda value: base64.b64encode(f"user:{value}".encode()).decode(),
    "Base64 after one byte": lambda value: base64.b64encode(f"x{value}".encode()).decode(),
    "Base64 after two bytes": lambda value: base64.b64encode(f"xy{value}yz".encode()).decode(),
    "hexadecimal": lambda value: value.encode().hex(),
    "hexadecimal in capitals": lambda value: value.encode().hex().upper(),
    "without the spaces around it": str.strip,
    "in HTML": html.escape,
    "in HTML without its quotes": lambda value: html.escape(value, quote=False),
    "in an attribute of XML": quoteattr,
    "in XML without any quotes": lambda value: escape(value, {'"': "&quot;", "'": "&apos;"}),
    "in HTML with numbers": lambda value: escape(value, {'"': "&#34;", "'": "&#39;"}),
    "as Python writes it": repr,
    "as Python writes it among quotes": lambda value: repr(f'it\'s "{value}"'),
    "as Python writes its bytes": lambda value: repr(value.encode()),
    "as Python writes its bytes among quotes": lambda value: repr(f'it\'s "{value}"'.encode()),
}


def traces(value: str) -> list[str]:
    """Texts that would let anybody have the secret."""
    raw = value.encode()
    return [value, quote(value, safe=""), base64.b64encode(raw).decode()[4:-4], raw.hex(), raw.hex().upper()]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "value", [VALUE, "plain-token-1234", " spaces around ", "ключ-от-всего", "line one\nline two", ODD]
)
def test_a_secret_is_masked_in_every_form(value: str, form: str) -> None:
    said = FORMS[form](value)

    masked = redacted(said, [Secret("KEY", value)])

    assert MASK in masked
    assert not any(trace in masked for trace in traces(value))


def test_capitals_of_an_escape_do_not_matter() -> None:
    quoted = lowered(quote("a/b/c d", safe=""))

    assert quoted == "a%2fb%2fc%20d"
    assert redacted(quoted, [Secret("KEY", "a/b/c d")]) == MASK


def test_what_is_around_a_secret_stays() -> None:
    assert redacted("before hunter2 after", [Secret("KEY", "hunter2")]) == f"before {MASK} after"


def test_keys_values_and_everything_below_them_are_looked_through() -> None:
    value = {
        "hunter2": {"list": ["a", ("hunter2", 5)], "none": None, "true": True},
        "number": 1.5,
        "nothing": "to see",
    }

    assert redacted(value, [Secret("KEY", "hunter2")]) == {
        MASK: {"list": ["a", [MASK, 5]], "none": None, "true": True},
        "number": 1.5,
        "nothing": "to see",
    }


def test_a_number_that_is_the_secret_is_masked_too() -> None:
    assert redacted([12345678, 1234567, 12345678.0, True], [Secret("PIN", "12345678")]) == [MASK, 1234567, MASK, True]


class Answer(msgspec.Struct):
    key: str


def test_what_would_be_written_as_json_is_masked_as_it_would_be_written() -> None:
    said = {"answer": Answer("hunter2"), "raw": b"hunter2", "set": {"hunter2"}}

    assert redacted(said, [Secret("KEY", "hunter2")]) == {"answer": {"key": MASK}, "raw": MASK, "set": [MASK]}


def test_the_lines_of_a_long_secret_are_secrets() -> None:
    pem = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\n  hkiG9w0BAQEFAASC  \n}\n-----END KEY-----\n"

    masked = redacted(["MIIEvQIBADANBgkq", "x hkiG9w0BAQEFAASC y", "}"], [Secret("KEY", pem)])

    assert masked == [MASK, f"x {MASK} y", "}"]


def test_of_two_secrets_the_longer_one_is_masked_first() -> None:
    both = [Secret("SHORT", "hunter2"), Secret("LONG", "hunter2-and-more")]

    assert redacted("hunter2-and-more, hunter2", both) == f"{MASK}, {MASK}"


@pytest.mark.parametrize("value", ["", "a", "abc"])
def test_what_is_too_short_to_hide_is_not_masked(value: str) -> None:
    said = {"abc": "a cab"}

    assert redacted(said, [Secret("KEY", value)]) is said


def test_without_secrets_nothing_is_looked_through() -> None:
    said = {"a": "b"}

    assert redacted(said, []) is said


def test_what_is_nested_too_deeply_to_be_looked_through_is_hidden_whole() -> None:
    said: Any = "hunter2"
    for _ in range(900):
        said = [said]

    assert "hunter2" not in str(redacted(said, [Secret("KEY", "hunter2")]))


@pytest.mark.parametrize("value", ["caf\udce9-key", "half a \ud800 character"])
def test_a_secret_that_is_no_text_is_masked_all_the_same(value: str) -> None:
    assert redacted(f"<{value}>", [Secret("KEY", value)]) == f"<{MASK}>"


# What is around it must not happen to hold it.
around = st.text('xyz \n"%\\', max_size=20)


@given(st.text("abcé/+ ", min_size=8).filter(str.strip), around, around)
def test_no_secret_survives_whatever_is_around_it(value: str, before: str, after: str) -> None:
    for said in (before + value + after, FORMS["Base64"](before + value + after), quote(before + value + after)):
        masked = redacted({said: [said]}, [Secret("KEY", value)])

        assert all(MASK in text for text in (*masked, *masked[next(iter(masked))]))
        assert not any(trace in str(masked) for trace in traces(value))


# Who is given it ------------------------------------------------------------------------------------------------------


class Peeking:
    """A tool that sees its context."""

    def __init__(self, tool_id: str, *secrets: str, say: Callable[[CallContext], Any] = lambda _: None) -> None:
        self.descriptor = MemoryTool(tool_id, rules=Rules(secrets=secrets)).descriptor
        self.seen: dict[str, str] = {}
        self._say = say

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:
        self.seen = {name: secret.reveal() for name, secret in context.secrets.items()}
        if message := arguments.get("progress"):
            await context.progress(1, 2, message)
        return self._say(context)


def stage_with(*tools: Peeking) -> Stage:
    stage = in_memory().add(*tools)
    stage.secrets.values.update(KEY=VALUE, OTHER="other-value")
    return stage


def test_a_tool_is_given_the_secrets_that_it_declares_and_no_others() -> None:
    none, one, both = Peeking("a.none"), Peeking("a.one", "KEY"), Peeking("a.both", "KEY", "OTHER")
    stage = stage_with(none, one, both)

    for tool in (none, one, both):
        assert code_of(stage.call(tool.descriptor.id, ADA)) == "DONE"

    assert none.seen == {}
    assert one.seen == {"KEY": VALUE}
    assert both.seen == {"KEY": VALUE, "OTHER": "other-value"}


def test_a_caller_cannot_bring_secrets_along() -> None:
    tool = Peeking("a.one", "KEY")
    stage = stage_with(tool)

    stage.call("a.one", ADA, secrets={"KEY": Secret("KEY", "forged"), "MORE": Secret("MORE", "forged")})

    assert tool.seen == {"KEY": VALUE}


def test_a_tool_that_declares_none_is_given_none_whoever_calls() -> None:
    tool = Peeking("a.none")
    stage = stage_with(tool)

    stage.call("a.none", ADA, secrets={"MORE": Secret("MORE", "of the one who calls")})

    assert tool.seen == {}


def test_a_secret_is_looked_up_anew_for_every_call() -> None:
    tool = Peeking("a.one", "KEY")
    stage = stage_with(tool)
    stage.call("a.one", ADA)

    stage.secrets.values["KEY"] = "a new one"
    stage.call("a.one", ADA)

    assert tool.seen == {"KEY": "a new one"}


def test_a_missing_secret_is_asked_for_once_and_uses_nothing_up() -> None:
    tool = MemoryTool("a.one", rules=Rules(secrets=("ONE", "TWO")), rate_limit_per_minute=1)
    stage = in_memory().add(tool)

    first, second = stage.call("a.one", ADA), stage.call("a.one", ADA)

    assert isinstance(first, Pending)
    assert first == second
    assert (first.code, first.message, first.remedy) == (
        "SECRET_REQUIRED",
        "a.one needs the secret ONE: put ONE into memory",
        "make the same call once it is there",
    )
    stage.secrets.values["ONE"] = "there"
    third = stage.call("a.one", ADA)
    assert isinstance(third, Pending)
    assert "TWO" in third.message
    stage.secrets.values["TWO"] = "there"
    assert code_of(stage.call("a.one", ADA)) == "DONE"
    assert tool.calls == 1


class BrokenSecrets(MemorySecrets):
    """A place that cannot be asked."""

    async def get(self, name: str) -> str | None:
        raise ToolFailure(FailureCode.NOT_CONFIGURED, f"The secret {name} cannot be read: it is locked", "unlock it")


def test_a_place_that_cannot_be_asked_is_a_failure_and_no_question() -> None:
    tool = Peeking("a.one", "KEY")
    stage = in_memory()
    stage.secrets.get = BrokenSecrets().get  # type: ignore[method-assign]
    stage.add(tool)

    outcome = stage.call("a.one", ADA)

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.message, outcome.remedy) == (
        FailureCode.NOT_CONFIGURED,
        "The secret KEY cannot be read: it is locked",
        "unlock it",
    )
    assert stage.actions() == []
    assert stage.kinds() == ["call.failed"]


# What leaves the tool -------------------------------------------------------------------------------------------------


def reveal(context: CallContext) -> str:
    return context.secrets["KEY"].reveal()


def fail(context: CallContext) -> Any:
    raise ToolFailure(FailureCode.TOOL_ERROR, f"acme refused {reveal(context)}", f"is {quote(reveal(context))} right?")


def need_by_value(context: CallContext) -> Any:
    raise NeedsAction("OAUTH", "acme", "Sign in", needs=context.secrets["OTHER"].reveal().replace("-", "_"))


def need(context: CallContext) -> Any:
    raise NeedsAction("OAUTH", f"acme {reveal(context)}", f"Sign in with {reveal(context)}")


def test_a_secret_in_a_result_is_masked() -> None:
    stage = stage_with(Peeking("a.one", "KEY", say=lambda context: {reveal(context): [reveal(context)], "ok": 1}))

    outcome = stage.call("a.one", ADA)

    assert isinstance(outcome, Done)
    assert outcome.result == {MASK: [MASK], "ok": 1}


def test_a_secret_in_the_words_of_a_failure_is_masked() -> None:
    outcome = stage_with(Peeking("a.one", "KEY", say=fail)).call("a.one", ADA)

    assert isinstance(outcome, Failed)
    assert (outcome.message, outcome.remedy) == (f"acme refused {MASK}", f"is {MASK} right?")


def test_a_secret_in_a_fault_of_the_result_is_masked() -> None:
    tool = Peeking("a.one", "KEY", say=lambda context: {reveal(context): 5})
    tool.descriptor = msgspec.structs.replace(
        tool.descriptor, output_schema={"additionalProperties": {"type": "string"}}
    )

    outcome = stage_with(tool).call("a.one", ADA)

    assert isinstance(outcome, Failed)
    assert outcome.details == (f'{MASK}: the value is not of type "string"',)


def test_a_secret_in_what_a_tool_asks_for_is_masked_and_kept_nowhere() -> None:
    stage = stage_with(Peeking("a.one", "KEY", say=need))

    outcome = stage.call("a.one", ADA)

    assert isinstance(outcome, Pending)
    assert outcome.message == f"Sign in with {MASK}"
    (action,) = stage.actions()
    assert (action.subject, action.message) == (f"acme {MASK}", f"Sign in with {MASK}")


def test_a_secret_that_is_named_by_its_value_is_kept_nowhere() -> None:
    stage = stage_with(Peeking("a.one", "OTHER", say=need_by_value))
    stage.secrets.values["OTHER"] = "other_value"

    outcome = stage.call("a.one", ADA)

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.message) == (
        FailureCode.RUNNER_ERROR,
        "a.one needs a secret, and does not say its name",
    )
    assert stage.actions() == []
    assert "other_value" not in f"{outcome} {stage.records()}"


ROOMY = {"type": "object", "properties": {"n": {"type": "string"}}}
TIGHT = {"integer": {"type": "integer"}, "short": {"type": "string", "maxLength": 8}, "one": {"enum": ["12345678", 1]}}


@pytest.mark.parametrize("kind", TIGHT)
def test_a_secret_where_there_is_no_room_for_its_mask_is_no_result(kind: str) -> None:
    tool = Peeking("a.one", "PIN", say=lambda context: {"n": show(context.secrets["PIN"].reveal())})
    show = int if kind == "integer" else str
    schema = {"type": "object", "properties": {"n": TIGHT[kind]}}
    tool.descriptor = msgspec.structs.replace(tool.descriptor, output_schema=schema)
    stage = in_memory().add(tool)
    stage.secrets.values["PIN"] = "12345678"

    outcome = stage.call("a.one", ADA)

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.message) == (
        FailureCode.OUTPUT_VALIDATION_FAILED,
        "a.one gave a secret where its schema has no room for the mask",
    )
    assert [detail.partition(":")[0] for detail in outcome.details] == ["n"]
    assert "12345678" not in str(outcome)
    assert stage.kinds() == ["call.started", "call.failed"]


def test_a_secret_where_there_is_room_for_its_mask_is_masked() -> None:
    tool = Peeking("a.one", "KEY", say=lambda context: {"n": reveal(context)})
    tool.descriptor = msgspec.structs.replace(tool.descriptor, output_schema=ROOMY)

    outcome = stage_with(tool).call("a.one", ADA)

    assert isinstance(outcome, Done)
    assert outcome.result == {"n": MASK}


def test_a_secret_in_what_is_told_on_the_way_is_masked() -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None = None, message: str | None = None) -> None:
        told.append((done, total, message))

    stage = stage_with(Peeking("a.one", "KEY"))

    stage.call("a.one", ADA, {"progress": f"using {VALUE}"}, progress=progress)

    assert told == [(1, 2, f"using {MASK}")]


def test_what_a_tool_with_a_secret_says_otherwise_stays() -> None:
    stage = stage_with(Peeking("a.one", "KEY", say=lambda _: {"status": "fine", "list": [1, 2.5, None, True]}))

    outcome = stage.call("a.one", ADA)

    assert isinstance(outcome, Done)
    assert outcome.result == {"status": "fine", "list": [1, 2.5, None, True]}
