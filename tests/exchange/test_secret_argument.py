"""Secrets among arguments and in addresses."""

from time import process_time

import pytest

from agent_resolver.exchange import has_secret, masked_arguments, secret_arguments

LONG = "a1b2c3d4e5f6g7h8i9j0k1l2"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--token", "hunter2"],
        ["--token=hunter2"],
        ["--api-key=hunter2"],
        ["--api_key", "hunter2"],
        ["--apiKey", "hunter2"],
        ["--github-token", "hunter2"],
        ["-password", "hunter2"],
        ["--client-secret", "x${Y}"],
        ["--key", LONG],
        [f"--auth={LONG}"],
        ["sk-abcdefgh12345678"],
        ["--x", "ghp_0123456789abcdef"],
        ["prefix:github_pat_0123456789"],
        ["AKIAABCDEFGHIJKLMNOP"],
        ["-e", "GITHUB_TOKEN=hunter2"],
        ["--header", "Authorization: Bearer hunter2"],
        ["--header", "X-API-Key:hunter2"],
        ["postgresql://me:hunter2@db.example/x"],
        ["--url", "https://w.example/mcp?token=hunter2"],
        ["-----BEGIN PRIVATE KEY-----"],
        ["host=db user=u password=hunter2secret"],
        ["Server=db;User Id=u;Password=hunter2secret;"],
        ["DefaultEndpointsProtocol=https;AccountKey=hunter2secret"],
        ["--dsn", "Password = 'hunter2secret'"],
        ["https://hunter2secret@api.example/mcp"],
        ["git+https://hunter2secret@git.example/x"],
        ["https://w.example/mcp?key=hunter2secret"],
        ["https://w.example/mcp?a=b&%6Bey=hunter2secret"],
        ["https://w.example/mcp#access_token=hunter2secret"],
        ["https://[h/mcp?token=hunter2secret"],
        ['{"apiKey":"hunter2secret"}'],
        [r'"{\"apiKey\": \"hunter2secret\"}"'],
        ["--config={'db': {'password': 'hunter2secret'}}"],
        ["{clientSecret:'hunter2secret'}"],
        ["--api-key", "-hunter2secret"],
        ["Accept: x, Authorization: Bearer hunter2secret"],
        ["--apiToken", "hunter2"],
        ["--api.key", "hunter2"],
        ["--pass", "hunter2"],
        ["--db-pass=hunter2"],
        ["--jwt", "hunter2"],
        ["--cookie", "session=hunter2"],
        ["--header", "Authorization:hunter2"],
        ["--header", "Token:hunter2"],
        ["-eTOKEN=hunter2"],
        ["Bearer hunter2"],
        ["-u", "me:hunter2"],
        ["-ume:hunter2"],
        ["--user=me:hunter2"],
        ["--auth", "me:hunter2"],
        ["mysql", "-u", "root", "-phunter2"],
        ["/usr/bin/mysqldump", "-phunter2"],
        ["sh", "-c", "mysql -uroot -phunter2 db"],
        ["sh", "-c", "curl -s -u me:hunter2 https://w.example"],
        ["SG.hunter2hunter2hunter2.hunter2hunter2hunter2"],
        ["figd_hunter2hunter2hunter2"],
    ],
)
def test_what_looks_like_a_secret_is_found(arguments: list[str]) -> None:
    assert secret_arguments(["start", *arguments])
    shown = " ".join(masked_arguments(["start", *arguments]))
    assert shown.startswith("start ")
    assert "***" in shown
    assert "hunter2" not in shown
    assert LONG not in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["-y", "@acme/token-server@1.2.0"],
        ["--token", "${TOKEN}"],
        ["--token=$TOKEN"],
        ["--api-key", "<API_KEY>"],
        ["--api-key={{acme.key}}"],
        ["--token", "--verbose"],
        ["--header", "Authorization: Bearer ${TOKEN}"],
        ["--auth-type", "oauth"],
        ["--key", "name"],
        ["-e", "GITHUB_TOKEN"],
        ["-e", "GOOGLE_APPLICATION_CREDENTIALS=/app/google/credentials.json"],
        ["acme/image@sha256:" + "0" * 64],
        ["postgresql://me:${PASSWORD}@db.example/x"],
        ["--path", "/srv/data"],
        ["--task-description", "words"],
        ["host=db user=u password=${PASSWORD} port=5432"],
        ["Server=db;Password=<password of the db>;Timeout=5"],
        ['{"apiKey":"${KEY}","useToken":true}'],
        [r'"{\"apiKey\":\"${KEY}\"}"'],
        ["sh", "-c", "export TOKEN=$(cat /run/x); exec start"],
        ["acme/secret:1.0", "repo/token:read"],
        ["--token", "-v"],
        ["-p", "8080:80"],
        ["-u", "root"],
        ["--sort-key=name", "monkey=1", "compat=1"],
        ["key=/etc/ssl/server.pem"],
        ["postgresql://me@db.example/x"],
        ["ssh://git@git.example/x"],
        ["https://<user>@w.example/mcp?key={key}#token=${TOKEN}"],
        ["--scope", "token:read"],
        ["acme-secret:1.0"],
        ["docker", "run", "-u", "node:node", "acme/image"],
        ["-u", "1000:1000"],
        ["-u", "me:${PASSWORD}"],
        ["mysql", "-p", "-p$PASSWORD"],
        ["sh", "-c", "mysql -p$PASSWORD; curl -u me:$WORD https://w.example"],
        ["-port", "8080"],
        ["-python3"],
        ["-p8080:80"],
        ["--compass", "north"],
        ["Bearer ${TOKEN}"],
        ["-eNAME=value"],
    ],
)
def test_other_arguments_are_left_alone(arguments: list[str]) -> None:
    assert secret_arguments(arguments) == []
    assert masked_arguments(arguments) == arguments


@pytest.mark.parametrize(
    "address", ["https://w.example/mcp", "https://w.example/mcp#top", "https://w.example/v1/projects/a-b-c-d"]
)
def test_an_address_without_a_secret(address: str) -> None:
    assert not has_secret(address)


@pytest.mark.parametrize(
    "address",
    [
        "https://hunter2secret@w.example/mcp",
        "https://w.example/mcp?key=hunter2secret",
        "https://w.example/mcp#access_token=hunter2secret",
        "https://[w/mcp?token=hunter2secret",
        "https://[bad",
    ],
)
def test_an_address_with_a_secret_or_that_cannot_be_read(address: str) -> None:
    assert has_secret(address)


def test_addresses_nested_too_deep_count_as_a_secret() -> None:
    nested = "https://a.example/?" + "=https://b.example/?" * 1000

    assert has_secret(nested)
    assert secret_arguments([nested]) == [0]
    assert not has_secret("https://a.example/?" + "=https://b.example/?" * 15)


@pytest.mark.parametrize("piece", ["mysql ", "curl -u a ", "${", "{{", 'token\\"', "x-"])
def test_no_argument_takes_long_to_look_through(piece: str) -> None:
    """Twice the text takes about twice the time: a source may have megabytes of arguments."""
    seconds = []
    for size in (20_000, 80_000):
        text = piece * (size // len(piece))
        start = process_time()
        secret_arguments([text])
        seconds.append(process_time() - start)

    assert seconds[1] < 10 * max(seconds[0], 0.005)
