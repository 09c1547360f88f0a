"""Versions that commands name."""

import pytest

from agent_resolver.exchange import command_version, image_version


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("npx -y @acme/w@1.2.0", "1.2.0"),
        ("npx -y @acme/w", None),
        ("npx -y w@latest", None),
        ("npx -y w@^1.2", None),
        ("npx -y -p w@2.0.0 start", "2.0.0"),
        ("npx --package=w@2.0.0 start", "2.0.0"),
        ("C:\\x\\npx.cmd -y w@1.0.0", "1.0.0"),
        ("uvx w==1.0", "1.0"),
        ("uvx w@1.0", "1.0"),
        ("uvx --from w[extra]==1.0 start", "1.0"),
        ("pipx run w==1.0", "1.0"),
        ("docker run -i --rm -e KEY --name x acme/w:v1.0 stdio", "1.0"),
        ("docker run -i acme/w", None),
        ("docker compose up", None),
        ("docker run", None),
        ("node server.js@1.0", None),
        ("npx", None),
    ],
)
def test_the_version_of_a_package_or_image(line: str, version: str | None) -> None:
    command, *arguments = line.split()

    assert command_version(command, arguments) == version


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("a/b:1.0", "1.0"),
        ("a/b:1.0@sha256:00", "1.0"),
        ("host:5000/b", None),
        ("a/b:latest", None),
        ("a:vector", "vector"),
    ],
)
def test_the_version_of_an_image(image: str, version: str | None) -> None:
    assert image_version(image) == version
