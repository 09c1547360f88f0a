"""The structure of OSCAL 1.1 assessment results, as far as our documents use it: written from its published reference.

A key that is not listed here is refused, so that a misspelt one is found.
"""

from typing import Any, Final

_UUID: Final = {
    "type": "string",
    "pattern": "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[45][0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}$",
}
_TOKEN: Final = {"type": "string", "pattern": "^(\\p{L}|_)(\\p{L}|\\p{N}|[.\\-_])*$"}
_STRING: Final = {"type": "string", "pattern": "^\\S(.*\\S)?$"}
_TIME: Final = {
    "type": "string",
    "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$",
}
_TEXT: Final = {"type": "string", "minLength": 1}
_ADDRESS: Final = {"type": "string", "format": "uri-reference", "minLength": 1}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def _list(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "minItems": 1, "items": item}


_PROPERTY: Final = _object({"name": _TOKEN, "value": _STRING}, {"ns": {"type": "string", "format": "uri"}})
_PROPERTIES: Final = {"props": _list(_PROPERTY)}
_METADATA: Final = _object(
    {"title": _TEXT, "last-modified": _TIME, "version": _STRING, "oscal-version": _STRING}, _PROPERTIES
)
_COMPONENT: Final = _object(
    {
        "uuid": _UUID,
        "type": _STRING,
        "title": _TEXT,
        "description": _TEXT,
        "status": _object({"state": {"enum": ["under-development", "operational", "disposition", "other"]}}),
    }
)
_CONTROLS: Final = _object(
    {"control-selections": _list(_object({"include-controls": _list(_object({"control-id": _TOKEN}))}))}
)
_OBSERVATION: Final = _object(
    {
        "uuid": _UUID,
        "description": _TEXT,
        "methods": _list({"enum": ["EXAMINE", "INTERVIEW", "TEST", "UNKNOWN"]}),
        "collected": _TIME,
    },
    {
        "title": _TEXT,
        "types": _list(
            {"enum": ["ssp-statement-issue", "control-objective", "mitigation", "finding", "historic"]},
        ),
        "subjects": _list(
            _object(
                {
                    "subject-uuid": _UUID,
                    "type": {"enum": ["component", "inventory-item", "location", "party", "user", "resource"]},
                }
            )
        ),
        "relevant-evidence": _list(_object({"description": _TEXT}, {"href": _ADDRESS})),
    },
)
_STATUS: Final = _object(
    {"state": {"enum": ["satisfied", "not-satisfied"]}}, {"reason": {"enum": ["pass", "fail", "other"]}}
)
_TARGET: Final = _object(
    {"type": {"enum": ["statement-id", "objective-id"]}, "target-id": _TOKEN, "status": _STATUS},
)
_FINDING: Final = _object(
    {"uuid": _UUID, "title": _TEXT, "description": _TEXT, "target": _TARGET},
    {**_PROPERTIES, "related-observations": _list(_object({"observation-uuid": _UUID}))},
)
_RESULT: Final = _object(
    {"uuid": _UUID, "title": _TEXT, "description": _TEXT, "start": _TIME, "reviewed-controls": _CONTROLS},
    {
        "end": _TIME,
        "local-definitions": _object({}, {"components": _list(_COMPONENT)}),
        "observations": _list(_OBSERVATION),
        "findings": _list(_FINDING),
    },
)
_HASH: Final = _object(
    {
        "algorithm": {"enum": ["SHA-224", "SHA-256", "SHA-384", "SHA-512", "SHA3-256", "SHA3-512"]},
        "value": {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"},
    }
)
_RESOURCE: Final = _object(
    {"uuid": _UUID}, {"title": _TEXT, "rlinks": _list(_object({"href": _ADDRESS}, {"hashes": _list(_HASH)}))}
)

ASSESSMENT_RESULTS: Final = _object(
    {
        "assessment-results": _object(
            {
                "uuid": _UUID,
                "metadata": _METADATA,
                "import-ap": _object({"href": _ADDRESS}),
                "results": _list(_RESULT),
            },
            {"back-matter": _object({}, {"resources": _list(_RESOURCE)})},
        )
    }
)
"""The JSON Schema of a document."""


def reference_faults(document: dict[str, Any]) -> list[str]:
    """References to nothing, and UUIDs that two things have: a schema cannot say that."""
    results = document["assessment-results"]
    named: list[str] = []
    used: set[str] = set()

    def visit(value: Any) -> None:
        if isinstance(value, list):
            for each in value:
                visit(each)
        if isinstance(value, dict):
            for key, each in value.items():
                if key == "uuid":
                    named.append(each)
                elif key.endswith("-uuid"):
                    used.add(each)
                elif key == "href" and each.startswith("#"):
                    used.add(each.removeprefix("#"))
                visit(each)

    visit(results)
    doubled = [f"two things are {each}" for each in sorted(set(named)) if named.count(each) > 1]
    return doubled + [f"nothing is {each}" for each in sorted(used - set(named))]
