"""The sensitivity of the data of a tool, which decides who may call it."""

from typing import Final, Literal, get_args

Classification = Literal["PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED"]

CLASSIFICATION_RANK: Final[dict[Classification, int]] = {
    level: rank for rank, level in enumerate(get_args(Classification))
}

CLASSIFICATION_OF: Final[dict[str, Classification]] = {
    "public": "PUBLIC",
    "internal": "INTERNAL",
    "confidential": "CONFIDENTIAL",
    "pii.low": "CONFIDENTIAL",
    "pii.moderate": "RESTRICTED",
    "pii.high": "RESTRICTED",
}
"""Maps each sensitivity that an agent file can name to the classification of such data, which is never lowered."""
