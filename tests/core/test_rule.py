"""The rules about data, for what is no server."""

import pytest

from agent_resolver.core import Limits, broken_data_rules
from agent_resolver.schema import RejectionCode, Residency, Sensitivity

KNOWN: tuple[tuple[Residency, ...], Sensitivity] = (("eu-only",), "confidential")


@pytest.mark.parametrize(
    ("residency", "highest", "limits", "expected"),
    [
        # Nothing is constrained: whatever it is, and whatever nobody knows, is fine.
        (None, None, Limits(), []),
        (None, None, Limits(residency="any"), []),
        (*KNOWN, Limits(forbid=("*",), require_signed=True), []),
        # Where data must stay.
        (*KNOWN, Limits(residency="eu-only"), []),
        (("any",), None, Limits(residency="us-only"), []),
        (*KNOWN, Limits(residency="us-only"), ["Agent requires 'us-only' but model supports: eu-only"]),
        ((), None, Limits(residency="us-only"), ["Agent requires 'us-only' but model supports: (none)"]),
        (None, None, Limits(residency="us-only"), ["Agent requires 'us-only' but the model's residency is not known"]),
        # How sensitive it may be.
        (*KNOWN, Limits(sensitivity="confidential"), []),
        (*KNOWN, Limits(sensitivity="public"), []),
        (*KNOWN, Limits(sensitivity="pii.low"), ["Agent sensitivity 'pii.low' exceeds model max 'confidential'"]),
        (None, None, Limits(sensitivity="public"), ["Agent sensitivity 'public' but the model's max is not known"]),
        # Both at once.
        (
            None,
            "internal",
            Limits(residency="eu-only", sensitivity="pii.high"),
            [
                "Agent requires 'eu-only' but the model's residency is not known",
                "Agent sensitivity 'pii.high' exceeds model max 'internal'",
            ],
        ),
    ],
)
def test_every_rule_that_is_broken_is_told(
    residency: tuple[Residency, ...] | None, highest: Sensitivity | None, limits: Limits, expected: list[str]
) -> None:
    assert [reason.message for reason in broken_data_rules("model", residency, highest, limits)] == expected


def test_the_codes_are_those_of_servers() -> None:
    limits = Limits(residency="eu-only", sensitivity="pii.high")

    known = broken_data_rules("model", ("us-only",), "public", limits)
    unknown = broken_data_rules("model", None, None, limits)

    assert [reason.code for reason in known] == [
        RejectionCode.RESIDENCY_MISMATCH,
        RejectionCode.SENSITIVITY_EXCEEDED,
    ]
    assert [reason.code for reason in unknown] == [
        RejectionCode.RESIDENCY_UNKNOWN,
        RejectionCode.SENSITIVITY_UNKNOWN,
    ]
