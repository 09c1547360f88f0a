"""How a locked server is reached: which addresses and which credentials are taken."""

import msgspec
import pytest

from agent_resolver.connection import Credentials, Surroundings, transport_of
from agent_resolver.registry import NeedsAction, ToolFailure
from agent_resolver.schema import FailureCode, LockedServer

TOKEN = Credentials(token_env="ACME_TOKEN")
SECRETS = {"ACME_TOKEN": "t0k3n", "ACME_SECRET": "s3cr3t"}


def at(endpoint: str) -> LockedServer:
    return LockedServer(
        category="tests", server_id="acme", version="1.0.0", endpoint=endpoint, scopes=("use",), hash="not looked at"
    )


def oauth(issuer: str | None) -> Credentials:
    return Credentials(client_id="ours", client_secret_env="ACME_SECRET", issuer=issuer)


def refusal(around: Surroundings, endpoint: str, credentials: Credentials) -> tuple[FailureCode, str, str]:
    with pytest.raises(ToolFailure) as refused:
        transport_of(at(endpoint), frozenset({"use"}), credentials, around)
    assert "t0k3n" not in str(refused.value)
    return refused.value.code, str(refused.value), refused.value.remedy


@pytest.fixture
def with_secrets(around: Surroundings) -> Surroundings:
    return msgspec.structs.replace(around, environment=SECRETS)


@pytest.mark.parametrize(
    "endpoint", ["ftp://acme.example/mcp", "acme.example", "https://", "http://[::1", "launch:sha256-0", "mailto:a@b.c"]
)
def test_what_is_no_http_address_is_not_called(around: Surroundings, endpoint: str) -> None:
    assert refusal(around, endpoint, Credentials()) == (
        FailureCode.SERVER_UNAVAILABLE,
        f"acme is locked at '{endpoint}', which is no HTTP address",
        "correct it in the index, and resolve again",
    )


@pytest.mark.parametrize("credentials", [TOKEN, oauth("https://issuer.example")])
@pytest.mark.parametrize("host", ["acme.example", "127.0.0.1.acme.example", "10.0.0.1", "localhost.acme.example"])
def test_credentials_never_travel_in_the_clear(with_secrets: Surroundings, host: str, credentials: Credentials) -> None:
    code, message, remedy = refusal(with_secrets, f"http://{host}/mcp", credentials)

    assert code is FailureCode.UNAUTHORIZED
    assert message.endswith("and credentials never travel in the clear")
    assert remedy == "use an `https` endpoint"


@pytest.mark.parametrize(
    "endpoint", ["https://acme.example/mcp", "http://127.0.0.1:1/mcp", "http://[::1]/", "http://localhost/"]
)
def test_credentials_go_where_nobody_can_read_them_on_the_way(with_secrets: Surroundings, endpoint: str) -> None:
    for credentials in (Credentials(), TOKEN, oauth("https://issuer.example"), oauth("http://127.0.0.1:1")):
        assert callable(transport_of(at(endpoint), frozenset({"use"}), credentials, with_secrets))


@pytest.mark.parametrize("issuer", [None, "", "http://issuer.example", "issuer.example", "ftp://issuer.example"])
def test_a_client_secret_goes_to_a_named_issuer_alone(with_secrets: Surroundings, issuer: str | None) -> None:
    code, message, remedy = refusal(with_secrets, "https://acme.example/mcp", oauth(issuer))

    assert code is FailureCode.UNAUTHORIZED
    assert message == f"The issuer of the credentials for acme is not an `https` address: {issuer or '(none)'}"
    assert remedy == 'set `oauth.issuer` of `[servers."acme"]` in agent.toml'


@pytest.mark.parametrize("environment", [{}, {"ACME_TOKEN": "", "ACME_SECRET": ""}])
@pytest.mark.parametrize(
    ("credentials", "name"), [(TOKEN, "ACME_TOKEN"), (oauth("https://issuer.example"), "ACME_SECRET")]
)
def test_a_secret_that_is_not_there_waits_for_a_person(
    around: Surroundings, credentials: Credentials, name: str, environment: dict[str, str]
) -> None:
    there = msgspec.structs.replace(around, environment=environment)

    with pytest.raises(NeedsAction) as needed:
        transport_of(at("https://acme.example/mcp"), frozenset({"use"}), credentials, there)

    assert (needed.value.kind, needed.value.subject) == ("SECRET", "acme")
    assert str(needed.value) == f"Set the environment variable {name} for acme"
