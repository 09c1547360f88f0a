"""How sensitive the data of a tool is, and so who may call it."""

from typing import Final, Literal, get_args

Classification = Literal["PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED"]

CLASSIFICATION_RANK: Final[dict[Classification, int]] = {
    level: rank for rank, level in enumerate(get_args(Classification))
}
