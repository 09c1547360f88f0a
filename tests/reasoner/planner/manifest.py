"""The tools of `examples/evals`, thirty-six of ten domains, and requests to plan with them."""

from pathlib import Path
from typing import Any

from agent_resolver.registry import descriptors_of
from agent_resolver.schema import Descriptor, Labels, Rules
from agent_resolver.schema.golden_context import GoldenContext
from agent_resolver.schema.golden_path import Answer
from agent_resolver.schema.manifest import MANIFEST_NAME, parse_manifest
from agent_resolver.schema.planning import PlanRequest

CONTEXT = GoldenContext(
    app_id="helpdesk", environment="dev", initiator_id="local:you", trace_id="0" * 32, cost_center="CC-42"
)

TEXT = {"type": "string", "minLength": 1, "maxLength": 2000}
FILE = Path(__file__).parents[3] / "examples" / "evals" / MANIFEST_NAME


def text(description: str, **more: Any) -> dict[str, Any]:
    return {**TEXT, "description": description, **more}


def shape(members: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    required = [name for name in members if name not in optional]
    return {"type": "object", "properties": members, "required": required, "additionalProperties": False}


def tool(  # noqa: PLR0913 - the attributes of a tool
    id: str,  # noqa: A002
    description: str,
    takes: dict[str, Any],
    gives: dict[str, Any] | None,
    *,
    optional: tuple[str, ...] = (),
    reads: bool = False,
    idempotent: bool = False,
    kind: Any = "CAPABILITY",
    **rules: Any,
) -> Descriptor:
    return Descriptor(
        id=id,
        description=description,
        input_schema=shape(takes, optional),
        output_schema=None if gives is None else shape(gives),
        source=f"module {id.partition('.')[0]}",
        hints={"readOnlyHint": reads, "idempotentHint": idempotent or reads},
        rules=Rules(is_idempotent=idempotent or reads, **rules),
        labels=Labels(kind=kind, domain=id.partition(".")[0], tags=(id.partition(".")[0],)),
    )


TOOLS: tuple[Descriptor, ...] = descriptors_of(parse_manifest(FILE.read_bytes()))
BY_ID = {each.id: each for each in TOOLS}


def ask(intent: str, answers: dict[str, str] | None = None, **more: Any) -> PlanRequest:
    """A request over all tools."""
    given = tuple(Answer(key=key, words=words) for key, words in (answers or {}).items())
    return PlanRequest(**{"intent": intent, "tools": TOOLS, "context": CONTEXT, "answers": given, **more})
