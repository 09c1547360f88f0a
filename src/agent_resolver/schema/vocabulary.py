"""The words that agent files and indexes share, and the kinds of text they hold."""

from typing import Annotated, Final, Literal, get_args

from msgspec import Meta

Residency = Literal["any", "us-only", "eu-only"]
Sensitivity = Literal[
    "public", "internal", "confidential", "pii.low", "pii.moderate", "pii.high"
]
Transport = Literal["stdio", "streamable-http", "sse"]
EndpointTransport = Literal["streamable-http", "sse"]
Status = Literal["active", "deprecated", "deleted"]

SENSITIVITY_RANK: Final[dict[Sensitivity, int]] = {
    level: rank for rank, level in enumerate(get_args(Sensitivity))
}

DECLARED_ORDER: Final[dict[frozenset[str], tuple[str, ...]]] = {
    frozenset(get_args(words)): get_args(words)
    for words in (Residency, Sensitivity, Transport, EndpointTransport, Status)
}
"""The words of each enumeration as declared above, where introspection only has them sorted."""

CONTROL_CHARACTERS: Final = "\\u0000-\\u001f\\u007f-\\u009f"
"""A character class: they hide text in a terminal and have no place in a name."""

SEPARATORS: Final = "@|,"
"""The hash of a locked server joins its fields with these, so no field may hold one."""


def text(refused: str = "", *, min_length: int = 1, **extra: str) -> Meta:
    """Text without control characters and without the characters in `refused`; not empty unless said so.

    `why` in `extra` says why the characters are refused.

    The pattern is published in the JSON Schema and checked by the walker; decoding stays free of regular
    expressions, and the readers check whole files at once instead.
    """
    times = "+" if min_length else "*"
    return Meta(
        min_length=min_length or None,
        extra_json_schema={"pattern": f"^[^{refused}{CONTROL_CHARACTERS}]{times}$"},
        extra={"refused": refused, **extra},
    )


Text = Annotated[str, text()]
OptionalText = Annotated[str, text(min_length=0)]
Prose = Annotated[str, Meta(extra={"lines": True})]
"""Text of several lines, without any other control characters."""
Identifier = Annotated[str, text(SEPARATORS)]
ToolScopes = dict[Text, tuple[Identifier, ...]]
"""Maps the name of a tool to the scopes that open it."""
Endpoint = Annotated[str, text("|")]
EnvironmentName = Annotated[
    str, text("=", why="only the name of a variable belongs here, never its value")
]
AgentName = Annotated[str, text(empty="Agent name is required")]
AgentVersion = Annotated[str, text(empty="Agent version is required")]
