"""The faults of a function, or of its types, that make it unsafe as a tool."""

from enum import StrEnum
from typing import Self

from msgspec import Struct, structs

At = tuple[str | int, ...]
"""The way to a place: names of fields, `[]` for the items of a list, `{}` for the values of a mapping."""


class UnsafeCode(StrEnum):
    """The kinds of fault; stable for machines."""

    # How it is declared.
    BAD_ID = "BAD_ID"
    DOMAIN_MISMATCH = "DOMAIN_MISMATCH"
    BAD_SETTING = "BAD_SETTING"
    UNAPPROVED_RESTRICTED = "UNAPPROVED_RESTRICTED"
    MISSING_DESCRIPTION = "MISSING_DESCRIPTION"
    MISSING_EXAMPLES = "MISSING_EXAMPLES"
    INVALID_EXAMPLE = "INVALID_EXAMPLE"

    # The function.
    BAD_SIGNATURE = "BAD_SIGNATURE"
    VARIADIC_PARAMETERS = "VARIADIC_PARAMETERS"
    MISSING_ANNOTATION = "MISSING_ANNOTATION"
    UNRESOLVED_ANNOTATION = "UNRESOLVED_ANNOTATION"
    NOT_IMPORTABLE = "NOT_IMPORTABLE"

    # What a type is.
    NOT_AN_OBJECT = "NOT_AN_OBJECT"
    UNTYPED = "UNTYPED"
    CALLABLE = "CALLABLE"
    BINARY = "BINARY"
    ARBITRARY_CLASS = "ARBITRARY_CLASS"
    POSITIONAL_FIELDS = "POSITIONAL_FIELDS"
    NON_STRING_KEYS = "NON_STRING_KEYS"
    UNDISCRIMINATED_UNION = "UNDISCRIMINATED_UNION"
    RECURSIVE_TYPE = "RECURSIVE_TYPE"
    OPEN_OBJECT = "OPEN_OBJECT"
    UNSUPPORTED_TYPE = "UNSUPPORTED_TYPE"

    # What a type does besides what its schema says.
    VALIDATOR = "VALIDATOR"
    TRANSFORM = "TRANSFORM"
    POST_INIT = "POST_INIT"
    SERIALIZER = "SERIALIZER"
    COMPUTED_FIELD = "COMPUTED_FIELD"
    ALIAS = "ALIAS"
    DEFAULT_FACTORY = "DEFAULT_FACTORY"
    NON_JSON_DEFAULT = "NON_JSON_DEFAULT"
    INVALID_DEFAULT = "INVALID_DEFAULT"
    SCHEMA_OVERRIDE = "SCHEMA_OVERRIDE"
    FOREIGN_METADATA = "FOREIGN_METADATA"

    # The schema that comes of it.
    INVALID_SCHEMA = "INVALID_SCHEMA"
    LONG_PATTERN = "LONG_PATTERN"
    TOO_DEEP = "TOO_DEEP"
    TOO_LARGE = "TOO_LARGE"


class Unsafe(Struct, frozen=True, kw_only=True):
    """One fault, with its place and what to use instead."""

    at: At = ()
    code: UnsafeCode
    message: str

    def within(self, at: At) -> Self:
        """The same fault, with its place as seen from further out."""
        return structs.replace(self, at=(*at, *self.at))

    @property
    def path(self) -> str:
        """The place in one word, such as `request.tags[]`."""
        return (
            ".".join(map(str, self.at)).replace(".[]", "[]").replace(".{}", "{}")
            or "(function)"
        )

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"
