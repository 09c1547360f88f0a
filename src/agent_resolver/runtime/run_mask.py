"""Hides the secret fields of a run's calls when the run is shown later, without its tools."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct

from agent_resolver.core.masking import MASK, SecretFields
from agent_resolver.core.wire_name import from_wire_name
from agent_resolver.registry.port import Seal
from agent_resolver.registry.secret import Secret, redacted
from agent_resolver.runtime.journal.entry import Entry, plan_purpose, unpack
from agent_resolver.runtime.message import ToolCall
from agent_resolver.runtime.plan_digest import ToolSecrets
from agent_resolver.schema.state import PLANS, JournalRow
from agent_resolver.storage.port import Snapshot

_EVERYTHING: Final = ToolSecrets(
    SecretFields(is_whole=True), SecretFields(is_whole=True)
)
_USUAL: Final = ToolSecrets()
_CALL_FIELDS: Final = frozenset(ToolCall.__struct_fields__)


class PlanFacts(Struct, frozen=True, kw_only=True):
    """The facts from the plans of a run that are needed to show it."""

    newest: Any = None
    """The document of the plan that it ran by last; None where it is gone."""
    tools: frozenset[str] = frozenset()
    """The ids of the tools of all its plans."""
    secrets: dict[str, ToolSecrets] = {}
    is_whole: bool = True
    """False if one of its plans is gone: which fields of its tools are secret is not known then."""

    def secrets_of(self, tool: str) -> ToolSecrets:
        """The fields of a tool that any of the plans calls secret; all of them, where one of the plans is gone."""
        return self.secrets.get(tool, _USUAL) if self.is_whole else _EVERYTHING


class _PlanDocument(Struct):
    tools: list[tuple[Any, ...]] = []
    secret_fields: dict[str, ToolSecrets] | None = None


def read_plan_facts(
    snapshot: Snapshot, seal: Seal, entries: Iterable[tuple[JournalRow, Entry]]
) -> PlanFacts:
    """Facts of the plans of a run and of those before it in its conversation; the newest plan is the last."""
    facts = PlanFacts()
    for digest in _plans_of(entries):
        content = _read_plan(snapshot, seal, digest)
        try:
            document = msgspec.json.decode(content, type=_PlanDocument)
        except (msgspec.DecodeError, RecursionError):
            # What is secret in this plan cannot be known any longer, so that every
            # field counts as secret.
            facts = msgspec.structs.replace(facts, newest=None, is_whole=False)
            continue
        named = frozenset(str(tool[0]) for tool in document.tools if tool)
        secrets = document.secret_fields
        facts = PlanFacts(
            newest=msgspec.json.decode(content),
            tools=facts.tools | named,
            secrets=_joined(facts.secrets, secrets or {}),
            # A plan from before this was kept says nothing of secret fields.
            is_whole=facts.is_whole and secrets is not None,
        )
    return facts


def _joined(
    before: dict[str, ToolSecrets], now: dict[str, ToolSecrets]
) -> dict[str, ToolSecrets]:
    """The secret fields of both: what a call was given as a secret stays one when the tool declares it no longer."""
    joined = dict(before)
    for tool, secrets in now.items():
        known = joined.get(tool, _USUAL)
        joined[tool] = ToolSecrets(
            known.arguments.joined(secrets.arguments),
            known.results.joined(secrets.results),
        )
    return joined


def _plans_of(entries: Iterable[tuple[JournalRow, Entry]]) -> list[str]:
    """The digests of the plans that a run ran by, the newest last."""
    digests = []
    for _, entry in entries:
        if entry.beginning is not UNSET:
            digests.append(entry.beginning.state.plan)
        if entry.change.plan is not UNSET:
            digests.append(entry.change.plan)
    return list(dict.fromkeys(digests))


def _read_plan(snapshot: Snapshot, seal: Seal, digest: str) -> bytes:
    """The document of a plan; nothing where it is gone or cannot be read."""
    row = snapshot.get(PLANS, digest)
    try:
        return b"" if row is None else unpack(seal.open(row.body, plan_purpose(digest)))
    except ValueError:
        return b""


def secret_values(
    facts: PlanFacts, entries: Iterable[tuple[JournalRow, Entry]]
) -> set[str]:
    """The values of secret fields in the calls of a run."""
    found: set[str] = set()
    for _, entry in entries:
        for call in (
            call for message in entry.change.messages for call in message.calls
        ):
            tool = from_wire_name(call.name, facts.tools) or call.name
            found |= facts.secrets_of(tool).arguments.values_in(
                _decoded(call.arguments)
            )
    return found


class RunMask:
    """Knows the values of secret fields of a run's calls, and hides them in every text of the run."""

    def __init__(self, facts: PlanFacts) -> None:
        self._facts = facts
        self._values: set[str] = set()
        self._results: dict[str, list[SecretFields]] = {}
        """The secret fields of results, by the id of the call; several calls may have one id."""

    def note_call(self, tool: str, call: ToolCall) -> Any:  # noqa: ANN401 - a JSON value
        """Learn of a call; returns its arguments with secret fields masked."""
        secrets = self._facts.secrets_of(tool)
        self._results.setdefault(call.id, []).append(secrets.results)
        arguments = _decoded(call.arguments or "{}")
        if arguments is None:
            # What is not JSON has no fields that could be told apart.
            return MASK
        self._values |= secrets.arguments.values_in(arguments)
        return secrets.arguments.mask(arguments)

    def hide(self, values: Iterable[str]) -> None:
        """Learn of what other runs were given in secret fields."""
        self._values.update(values)

    def redact(self, value: Any) -> Any:  # noqa: ANN401 - a JSON value
        """A value without the values of secret fields, also where a model or a tool repeats them."""
        return redacted(value, [Secret("", text) for text in sorted(self._values)])

    def mask_document(self, value: Any) -> Any:  # noqa: ANN401 - a JSON value
        """A document of the run's messages and entries, with secret fields of calls and results masked."""
        # Fields first: they teach the values which the texts are then searched for.
        return self.redact(self._mask_parts(value))

    def _mask_parts(self, value: Any) -> Any:  # noqa: ANN401 - as above
        if isinstance(value, list):
            return [self._mask_parts(each) for each in value]
        if not isinstance(value, dict):
            return value
        # A document has no types: a call is known by its fields.
        if value.keys() == _CALL_FIELDS:
            return {**value, "arguments": self._masked_arguments(value)}
        masked = {name: self._mask_parts(each) for name, each in value.items()}
        if value.get("role") == "tool":
            masked["content"] = [
                self._mask_block(each, value.get("call_id", ""))
                for each in masked["content"]
            ]
        return masked

    def _masked_arguments(self, call: dict[str, Any]) -> str:
        tool = from_wire_name(call["name"], self._facts.tools) or call["name"]
        masked = self.note_call(tool, msgspec.convert(call, ToolCall))
        return (
            masked if isinstance(masked, str) else msgspec.json.encode(masked).decode()
        )

    def _mask_block(self, block: dict[str, Any], call_id: str) -> dict[str, Any]:
        """A block of a tool's message; a result that is not JSON has no fields."""
        known = self._results.get(call_id, [SecretFields()])
        # Where several calls have one id, the fields of all of them are masked: too
        # much rather than too little.
        if any(fields.is_whole for fields in known):
            return {**block, "text": MASK}
        result = _decoded(block.get("text", ""))
        if result is None:
            return block
        for fields in known:
            result = fields.mask(result)
        return {**block, "text": msgspec.json.encode(result).decode()}


def _decoded(text: str) -> Any:  # noqa: ANN401 - a JSON value
    """The JSON object in a text; None for anything else."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None
