"""How sensitive the data of a tool is."""

from typing import get_args

from agent_resolver.schema import CLASSIFICATION_RANK, Classification


def test_there_are_four_levels_from_what_everybody_may_see_to_what_few_may() -> None:
    assert sorted(CLASSIFICATION_RANK, key=CLASSIFICATION_RANK.__getitem__) == [
        "PUBLIC",
        "INTERNAL",
        "CONFIDENTIAL",
        "RESTRICTED",
    ]


def test_every_level_has_a_rank_of_its_own() -> None:
    assert set(CLASSIFICATION_RANK) == set(get_args(Classification))
    assert len(set(CLASSIFICATION_RANK.values())) == len(CLASSIFICATION_RANK)
