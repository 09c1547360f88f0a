import random

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import sampling
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from agent_resolver.telemetry import SAMPLERS, sampler_of

RATIO = 0.3
THEIRS = {
    "always_on": sampling.ALWAYS_ON,
    "always_off": sampling.ALWAYS_OFF,
    "traceidratio": sampling.TraceIdRatioBased(RATIO),
    "parentbased_always_on": sampling.DEFAULT_ON,
    "parentbased_always_off": sampling.DEFAULT_OFF,
    "parentbased_traceidratio": sampling.ParentBasedTraceIdRatio(RATIO),
}


def theirs(name: str, trace_id: int, of_parent: bool | None) -> bool:  # noqa: FBT001 - as ours
    around = Context()
    if of_parent is not None:
        parent = SpanContext(trace_id, 1, is_remote=True, trace_flags=TraceFlags(of_parent))
        around = set_span_in_context(NonRecordingSpan(parent), around)
    return THEIRS[name].should_sample(around, trace_id, "span").decision is sampling.Decision.RECORD_AND_SAMPLE


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("of_parent", [None, True, False])
def test_every_sampler_decides_as_the_one_of_the_sdk(name: str, of_parent: bool | None) -> None:  # noqa: FBT001
    generator = random.Random(6)
    sampler = sampler_of(name, RATIO)

    for trace_id in (1, 2**64 - 1, 2**128 - 1, *(generator.getrandbits(128) or 1 for _ in range(500))):
        assert sampler(trace_id, of_parent) is theirs(name, trace_id, of_parent)


def test_a_ratio_keeps_about_as_many() -> None:
    generator = random.Random(6)
    sampler = sampler_of("traceidratio", RATIO)

    kept = sum(sampler(generator.getrandbits(128), None) for _ in range(10_000))

    assert 2_800 < kept < 3_200


@pytest.mark.parametrize(("ratio", "expected"), [(0.0, False), (1.0, True)])
def test_nothing_and_everything_are_ratios_too(ratio: float, expected: bool) -> None:  # noqa: FBT001
    sampler = sampler_of("traceidratio", ratio)

    assert {sampler(trace_id, None) for trace_id in (1, 2**64 - 1, 2**64, 2**128 - 1)} == {expected}
