import re
from pathlib import Path

import pytest

from agent_resolver.telemetry import SAMPLERS, attribute as name

PAGE = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text(encoding="utf-8")
ATTRIBUTES = [value for value in vars(name).values() if re.fullmatch(r"(golden|gen_ai|error)\.[a-z_.]+", str(value))]


def test_there_are_names() -> None:
    assert len(ATTRIBUTES) == len(set(ATTRIBUTES)) == 24


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_every_attribute_is_on_the_page(attribute: str) -> None:
    assert f"`{attribute}`" in PAGE


@pytest.mark.parametrize(
    ("component", "metric"),
    [
        ("executable", name.CALLS),
        ("executable", name.DURATION),
        ("reasoner", name.STAGES),
        ("reasoner", name.STAGE_DURATION),
    ],
)
def test_a_metric_is_named_for_its_component(component: str, metric: str) -> None:
    assert re.fullmatch(rf"golden_{component}_[a-z]+", metric)
    assert f"| `{metric}` |" in PAGE


def test_the_samplers_are_on_the_page() -> None:
    roots = [sampler for sampler in SAMPLERS if not sampler.startswith("parentbased_")]

    assert {f"parentbased_{root}" for root in roots} | set(roots) == set(SAMPLERS)
    assert all(f"`{root}`" in PAGE for root in roots)
