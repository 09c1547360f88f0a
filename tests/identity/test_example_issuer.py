"""The issuer of the example gives out tokens with each claim of a context, and without it."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from joserfc.jwk import ECKey

from agent_resolver.identity import read_keys, verify
from agent_resolver.schema import CONTEXT_CLAIMS, Caller

FILE = Path(__file__).parents[2] / "examples" / "tickets" / "issuer.py"
ISSUER = "http://127.0.0.1:1"
KEY = ECKey.generate_key("P-256", {"kid": "trial", "use": "sig"})


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_issuer", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def caller_of_example(example: ModuleType, name: str, *without: str) -> Caller:
    token = example.token_for(name, ISSUER, KEY, frozenset(without))
    published = json.dumps({"keys": [KEY.as_dict(private=False)]}).encode()
    return verify(token, read_keys(published), issuer=ISSUER, audience=example.AUDIENCE, now=example.time.time())


@pytest.mark.parametrize("name", ["requester", "approver"])
def test_both_callers_have_every_claim_of_a_context(example: ModuleType, name: str) -> None:
    found = caller_of_example(example, name)

    assert (found.id, found.absent_claims, found.clearance) == (name, (), "RESTRICTED")
    assert found.division
    assert found.cost_center


@pytest.mark.parametrize("claim", CONTEXT_CLAIMS)
def test_each_claim_can_be_left_out(example: ModuleType, claim: str) -> None:
    assert caller_of_example(example, "requester", claim).absent_claims == (claim,)
    assert example.parse_line(["requester", "--without", claim, "agent", "inbox", "list"]) == (
        "requester",
        {claim},
        ["agent", "inbox", "list"],
    )


def test_several_claims_can_be_left_out(example: ModuleType) -> None:
    line = ["approver", *(word for claim in CONTEXT_CLAIMS for word in ("--without", claim)), "true"]

    assert example.parse_line(line) == ("approver", set(CONTEXT_CLAIMS), ["true"])
    assert caller_of_example(example, "approver", *CONTEXT_CLAIMS).absent_claims == CONTEXT_CLAIMS


@pytest.mark.parametrize(
    "line",
    [
        "",
        "requester",
        "nobody true",
        "requester --without",
        "requester --without division",
        "requester --without sub x",
    ],
)
def test_a_line_that_is_not_understood_runs_nothing(example: ModuleType, line: str) -> None:
    assert example.parse_line(line.split()) is None
