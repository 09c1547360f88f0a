"""Parts of pages that are made from the program: `<!-- made by: NAME -->` stands before such a block."""

from textwrap import fill

from agent_resolver.runtime import known_models

_WIDTH = 116


def models() -> str:
    """The models that need no entry, by provider, and the families that other tools name."""
    table = known_models()
    lines = [f"as of {table.as_of}"]
    for name, provider in table.providers.items():
        served = [model for model, known in table.models.items() if known.provider == name]
        lines.append(f"{name} ({provider.api_key_env}): {', '.join(served)}")
    lines += [f"{family} → {newest}" for family, newest in table.families.items()]
    return "".join(fill(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False) + "\n" for line in lines)


MADE = {"models": models}
