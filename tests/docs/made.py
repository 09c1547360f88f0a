"""Parts of pages that are made from the program: `<!-- made by: NAME -->` stands before such a block."""

import json
from textwrap import fill
from typing import Any

from agent_resolver.catalog import Catalog, CatalogIndex
from agent_resolver.runtime import known_models
from agent_resolver.schema import Descriptor
from agent_resolver.server import ResourceTools

_WIDTH = 116


def twins() -> str:
    """The tool twins with their arguments, required ones first."""
    catalog = Catalog([], CatalogIndex(None))
    tools = [tool.descriptor for tool in ResourceTools(catalog, lambda _: None).tools()]
    catalog.close()
    return "".join(map(_twin, tools))


def _twin(tool: Descriptor) -> str:
    required = tool.input_schema["required"]
    arguments = sorted(tool.input_schema["properties"].items(), key=lambda argument: argument[0] not in required)
    lines = [f"  {name}{'' if name in required else '?'}: {_kind(schema)}" for name, schema in arguments]
    return "\n".join([f"{tool.id}: {tool.description}", *lines, ""])


def _kind(schema: dict[str, Any]) -> str:
    kind = " | ".join(map(json.dumps, schema["enum"])) if "enum" in schema else schema["type"]
    bounds = f" {schema['minimum']}..{schema['maximum']}" if "maximum" in schema else ""
    default = f" = {json.dumps(schema['default'])}" if "default" in schema else ""
    return f"{kind}{bounds}{default}"


def models() -> str:
    """The models that need no entry, by provider, and the families that other tools name."""
    table = known_models()
    lines = [f"as of {table.as_of}"]
    for name, provider in table.providers.items():
        served = [model for model, known in table.models.items() if known.provider == name]
        lines.append(f"{name} ({provider.api_key_env}): {', '.join(served)}")
    lines += [f"{family} → {newest}" for family, newest in table.families.items()]
    return "".join(fill(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False) + "\n" for line in lines)


MADE = {"models": models, "twins": twins}
