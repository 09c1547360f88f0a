"""Packages in launch records."""

import shlex

import pytest

from agent_resolver.core import (
    Floating,
    FloatingKind,
    Package,
    floating_reason,
    package_of,
    package_url,
    packages_of,
    pinned_form,
)
from agent_resolver.core.package import read_package
from agent_resolver.schema import Launch

DIGEST = f"sha256:{'0123456789abcdef' * 4}"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def launch(line: str) -> Launch:
    """A launch record of words that have no spaces."""
    command, *args = line.split()
    return Launch(command=command, args=tuple(args))


def kind_of(line: str) -> FloatingKind | None:
    found = floating_reason(launch(line))
    return found.kind if found else None


@pytest.mark.parametrize(
    "line",
    [
        "npx pkg@1.2.3",
        "npx -y pkg@1.2.3 --flag value",
        "npx --yes -- pkg@1.2.3",
        "npx -p pkg@1.2.3 command",
        "npx -y --package=pkg@1.2.3 command",
        "npx pkg@v1.2.3",
        "npx pkg@npm:pkg@1.2.3",
        "/usr/local/bin/npx -y pkg@1.2.3",
        r"C:\nodejs\npx.cmd -y pkg@1.2.3",
        "npm exec -y -- pkg@1.2.3",
        "npm x pkg@1.2.3",
        "bunx pkg@1.2.3",
        "bun x pkg@1.2.3",
        "pnpx pkg@1.2.3",
        "pnpm dlx pkg@1.2.3",
        "pnpm --silent dlx --package pkg@1.2.3 command",
        "yarn dlx -q pkg@1.2.3",
        "deno run -A npm:pkg@1.2.3",
        "cmd /c npx -y pkg@1.2.3",
        "env TOKEN=x npx -y pkg@1.2.3",
        "sudo timeout 60 npx -y pkg@1.2.3",
        "secrets run -- npx -y pkg@1.2.3",
    ],
)
def test_an_npm_package_is_found_in_every_command_that_runs_one(line: str) -> None:
    assert package_of(launch(line)) == Package(kind="npm", name="pkg", version="1.2.3")
    assert floating_reason(launch(line)) is None


@pytest.mark.parametrize(
    "line",
    [
        "uvx pkg==1.2.3",
        "uvx pkg@1.2.3",
        "uvx --from pkg==1.2.3 command",
        "uvx --python 3.12 -q pkg===1.2.3",
        "uv tool run pkg==1.2.3",
        "uv --quiet tool run --from=pkg==1.2.3 command",
        "uv run --with pkg==1.2.3 command",
        "pipx run pkg==1.2.3",
        "pipx run --spec pkg==1.2.3 command",
    ],
)
def test_a_python_package_is_found_in_every_command_that_runs_one(line: str) -> None:
    assert package_of(launch(line)) == Package(kind="pypi", name="pkg", version="1.2.3")
    assert floating_reason(launch(line)) is None


@pytest.mark.parametrize(
    "line",
    [
        "docker run -i --rm acme/server:1.2@{digest}",
        "docker run -it --rm -e TOKEN -v /a:/b --name x acme/server:1.2@{digest} serve",
        "docker run -eTOKEN -ite OTHER acme/server:1.2@{digest}",
        "docker --context remote run --env=TOKEN acme/server:1.2@{digest}",
        "docker container run acme/server:1.2@{digest}",
        "podman run --replace -- acme/server:1.2@{digest}",
        "nerdctl run acme/server:1.2@{digest}",
    ],
)
def test_an_image_is_found_behind_options_with_and_without_values(line: str) -> None:
    image = Package(kind="oci", name="acme/server", version="1.2", digest=DIGEST)

    assert package_of(launch(line.format(digest=DIGEST))) == image
    assert floating_reason(launch(line.format(digest=DIGEST))) is None


@pytest.mark.parametrize(
    "line",
    [
        "python -m server",
        "node server.js",
        "npm start",
        "npm run server",
        "npm --unknown run server",
        "uv run server.py",
        "uv run --frozen --directory /srv server.py",
        "docker compose run server",
        "docker exec -i server serve",
        "deno run -A server.ts",
        "npx ./server",
        "uvx --from /srv/checkout command",
        "env PORT=1 UV_INDEX=x python server.py",
        "run -- python server.py",
        "bash server.sh",
        "node dist/index.js --runtime=docker",
        "python server.py /srv/docker/",
        "python -m server -m",
        "go run ./server",
        "dnx Acme.Server@1.2.3 --yes -- --port 1",
        "yarn",
        "go run example.com/server@v1.2.3",
        "go build example.com/server@latest",
        "powershell -ExecutionPolicy Bypass -File server.ps1",
        "pwsh server.ps1",
        "nohup python server.py",
        "cmd /d /c server.bat /srv/files",
    ],
)
def test_a_plain_command_has_no_package(line: str) -> None:
    assert package_of(launch(line)) is None
    assert floating_reason(launch(line)) is None


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("npx -y pkg", FloatingKind.NO_VERSION),
        ("npx -y @scope/pkg", FloatingKind.NO_VERSION),
        ("npx -y pkg@latest", FloatingKind.RANGE),
        ("npx -y pkg@next", FloatingKind.RANGE),
        ("npx -y pkg@^1", FloatingKind.RANGE),
        ("npx -y pkg@~1.2.3", FloatingKind.RANGE),
        ("npx -y pkg@1.x", FloatingKind.RANGE),
        ("npx -y pkg@1", FloatingKind.RANGE),
        ("npx -y pkg@>=1.0.0", FloatingKind.RANGE),
        ("npx -y pkg@npm:other@latest", FloatingKind.RANGE),
        ("npx -y -p pkg@1.2.3 -p other command", FloatingKind.NO_VERSION),
        ("npx github:acme/server", FloatingKind.NO_VERSION),
        ("npx acme/server#main", FloatingKind.RANGE),
        ("npx https://example.com/server.tgz", FloatingKind.URL),
        ("npx --unknown pkg@1.2.3 other", FloatingKind.UNCLEAR),
        ("npm --unknown exec pkg@1.2.3", FloatingKind.UNCLEAR),
        ("npx -yz pkg@1.2.3", FloatingKind.UNCLEAR),
        ("npx -y", FloatingKind.UNCLEAR),
        ("npx -y --package", FloatingKind.UNCLEAR),
        ("uvx pkg", FloatingKind.NO_VERSION),
        ("uvx pkg[cli]", FloatingKind.NO_VERSION),
        ("uvx pkg@latest", FloatingKind.RANGE),
        ("uvx pkg==1.*", FloatingKind.RANGE),
        ("uvx pkg>=1,<2", FloatingKind.RANGE),
        ("uvx --with other pkg==1.2.3", FloatingKind.NO_VERSION),
        ("uvx --from git+https://example.com/acme/server command", FloatingKind.NO_VERSION),
        ("uvx --from git+https://example.com/acme/server@main command", FloatingKind.RANGE),
        ("uvx <package>", FloatingKind.NO_VERSION),
        ("docker run acme/server", FloatingKind.NO_VERSION),
        ("docker run acme/server:latest", FloatingKind.RANGE),
        ("docker run acme/server:1.2", FloatingKind.TAG),
        ("docker run registry:5000/server", FloatingKind.NO_VERSION),
        ("docker run acme/server:1.2@sha256:short", FloatingKind.TAG),
        ("docker run --unknown x acme/server:1.2", FloatingKind.UNCLEAR),
        ("cmd /c npx pkg", FloatingKind.NO_VERSION),
        ("secrets run -- npx pkg", FloatingKind.NO_VERSION),
    ],
)
def test_a_package_that_can_change_floats(line: str, kind: FloatingKind) -> None:
    assert kind_of(line) is kind


def test_a_commit_pins_a_repository() -> None:
    assert kind_of(f"npx github:acme/server#{COMMIT}") is None
    assert kind_of(f"uvx --from git+https://user@example.com/acme/server@{COMMIT} command") is None
    assert kind_of(f"npx https://example.com/acme/server.git#{COMMIT}") is None


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("npx -y pkg", FloatingKind.NO_VERSION),
        ("cd /srv && exec npx -y pkg", FloatingKind.NO_VERSION),
        ("DEBUG=1 npx -y pkg", FloatingKind.NO_VERSION),
        ("command npx -y pkg", FloatingKind.NO_VERSION),
        ("npx -y pkg@1.2.3", None),
        ("DEBUG=1 npx -y pkg@1.2.3", None),
        ("python server.py", None),
        ("exec", None),
        ("", None),
        ("npx -y pkg@1.2.3 2>/dev/null", FloatingKind.UNCLEAR),
        ("npx -y pkg@1.2.3; npx evil", FloatingKind.UNCLEAR),
        ("npx 'pkg", FloatingKind.UNCLEAR),
        ("eval 'n''px evil'", FloatingKind.UNCLEAR),
        ("if true; then npx evil; fi", FloatingKind.UNCLEAR),
        ("curl https://example.com | sh", FloatingKind.UNCLEAR),
        ("echo a#b; npx evil", FloatingKind.UNCLEAR),
        ("true\nnpx evil", FloatingKind.UNCLEAR),
        ("$RUN evil", FloatingKind.UNCLEAR),
        ("`echo npx` evil", FloatingKind.UNCLEAR),
        ("/usr/bin/np? evil", FloatingKind.UNCLEAR),
        ("sudo {npx,evil}", FloatingKind.UNCLEAR),
        ("npm_config_registry=https://example.com npx pkg@1.2.3", FloatingKind.UNCLEAR),
        ("unknown 'npx evil'", FloatingKind.UNCLEAR),
        ("a" * 100 + "; b", FloatingKind.UNCLEAR),
    ],
)
def test_a_package_is_found_in_the_script_of_a_shell(script: str, kind: FloatingKind | None) -> None:
    found = floating_reason(Launch(command="/bin/bash", args=("-lc", script)))

    assert (found.kind if found else None) is kind


@pytest.mark.parametrize(
    "line",
    [
        ("bash", "-cx", "npx -y evil"),
        ("bash", "-xec", "npx -y evil"),
        ("nohup", "npx", "-y", "evil"),
        ("setsid", "npx", "-y", "evil"),
        ("time", "npx", "-y", "evil"),
        ("xargs", "npx", "-y", "evil"),
        ("busybox", "sh", "-c", "npx -y evil"),
        ("wsl", "-e", "npx", "-y", "evil"),
        ("corepack", "pnpm", "dlx", "evil"),
        ("python3.12", "-m", "pipx", "run", "evil"),
        ("python", "-m", "uv", "tool", "run", "evil"),
        ("pwsh", "-NoProfile", "-Command", "npx", "-y", "evil"),
    ],
)
def test_a_package_without_a_version_is_found_in_a_hiding_place(line: tuple[str, ...]) -> None:
    found = floating_reason(Launch(command=line[0], args=line[1:]))

    assert found is not None
    assert found.kind is FloatingKind.NO_VERSION


@pytest.mark.parametrize(
    "line",
    [
        ("env", "-S", "npx -y evil"),
        ("env", "-Snpx -y evil"),
        ("env", "-S", "npx evil", "npx", "pkg@1.2.3"),
        ("env", "UV_INDEX_URL=https://example.com", "uvx", "pkg==1.2.3"),
        ("unknown", "npx", "-y", "evil"),
        ("unknown", "--run=npx -y evil"),
        ("unknown", "npx evil", "--", "npx", "pkg@1.2.3"),
        ("unknown", "bash", "-c", "curl https://example.com | sh"),
        ("bash", "-c", "-x", "npx evil"),
        ("fish", "--command=curl https://example.com | sh"),
        ("su", "me", "-c", "curl https://example.com | sh"),
        ("corepack", "pnpm@9", "dlx", "evil"),
        ("cmd", "/c", "npx pkg@1.2.3 & npx evil"),
        ("cmd", "/cnpx", "evil"),
        ("powershell", "irm https://example.com | iex"),
        ("powershell", "-enc", "AAAA"),
        ("python", "-mpipx", "run", "evil"),
        ("python", "-X", "dev", "server.py", "npx"),
        ("node", "/usr/lib/npx-cli.js", "evil"),
        ("docker", "run", f"node@{DIGEST}", "npx", "-y", "evil"),
        ("uv", "run", "npx", "-y", "evil"),
        ("npx", "-p", "pkg@1.2.3", "npx", "evil"),
        ("npx", "--registry", "https://example.com", "pkg@1.2.3"),
        ("npm", "exec", "pkg@1.2.3", "--registry=https://example.com"),
        ("uvx", "--index-url", "https://example.com", "pkg==1.2.3"),
        ("uvx", "--with-requirements", "all.txt", "pkg==1.2.3"),
        ("pipx", "run", "--pip-args=-i https://example.com", "pkg==1.2.3"),
        ("deno", "run", "jsr:@acme/server"),
        ("go", "run", "example.com/server@latest"),
        ("dnx", "Acme.Server", "--yes"),
        ("dnx", "Acme.Server@1.2.3", "--source", "https://example.com"),
        ("npm", "--silent", "init", "evil"),
        ("yarn", "create", "evil"),
        ("bash", "-co", "pipefail", "curl https://example.com | sh"),
        ("fish", "--init-command", "curl https://example.com | sh"),
    ],
)
def test_what_may_fetch_anything_is_unclear(line: tuple[str, ...]) -> None:
    found = floating_reason(Launch(command=line[0], args=line[1:]))

    assert found is not None
    assert found.kind is FloatingKind.UNCLEAR


@pytest.mark.parametrize("line", ["deno run https://example.com/a.ts", "uv run https://example.com/a.py"])
def test_a_script_at_an_address_can_change(line: str) -> None:
    assert kind_of(line) is FloatingKind.URL


def test_a_package_is_found_behind_several_wrappers() -> None:
    assert kind_of("env sudo nice env timeout 5 npx pkg") is FloatingKind.NO_VERSION
    nested = Launch(command="env", args=("bash", "-c", "sudo npx pkg"))
    assert package_of(nested) == Package(kind="npm", name="pkg")


def test_a_command_in_too_many_wrappers_is_unclear() -> None:
    script = "npx pkg@1.2.3"
    for _ in range(5):
        script = shlex.join(("bash", "-c", script))
    found = floating_reason(Launch(command="bash", args=("-c", script)))

    assert found is not None
    assert found.kind is FloatingKind.UNCLEAR


def test_only_a_tag_without_a_digest_is_a_weak_pin() -> None:
    tag, none = floating_reason(launch("docker run acme/server:1.2")), floating_reason(launch("docker run acme/server"))

    assert tag == Floating(
        FloatingKind.TAG, "`acme/server:1.2` is a tag without a digest, and its publisher can move it"
    )
    assert tag is not None
    assert tag.is_weak_pin
    assert none is not None
    assert not none.is_weak_pin


@pytest.mark.parametrize(
    ("line", "version", "pinned"),
    [
        ("npx -y pkg", "1.2.3", "npx -y pkg@1.2.3"),
        ("npx -y @scope/pkg@latest --port 1", "1.2.3", "npx -y @scope/pkg@1.2.3 --port 1"),
        ("npx -y pkg", "unversioned", "npx -y 'pkg@<version>'"),
        ("npx --package=pkg -p fixed@1.0.0 command", "1.2.3", "npx --package=pkg@1.2.3 -p fixed@1.0.0 command"),
        ("uvx pkg[cli]", "1.2.3", "uvx 'pkg[cli]==1.2.3'"),
        ("uvx --with other pkg", "1.2.3", "uvx --with 'other==<version>' pkg==1.2.3"),
        ("docker run -i acme/server", "1.2.3", "docker run -i 'acme/server@sha256:<digest>'"),
        ("docker run -i acme/server:1.2", "1.2.3", "docker run -i 'acme/server:1.2@sha256:<digest>'"),
        ("npx acme/server", "1.2.3", "npx 'github:acme/server#<commit>'"),
        ("uvx --from git+https://h/a/b command", "1", "uvx --from 'git+https://h/a/b@<commit>' command"),
        ("cmd /c npx -y pkg", "1.2.3", "cmd /c npx -y pkg@1.2.3"),
        ("op run -- npx -y pkg", "1.2.3", "op run -- npx -y pkg@1.2.3"),
        ("env LEVEL=1 uvx pkg", "1.2.3", "env LEVEL=1 uvx pkg==1.2.3"),
        ("npx https://example.com/server.tgz", "1.2.3", ""),
        ("npx --unknown pkg", "1.2.3", ""),
        ("npx -y --package", "1.2.3", ""),
        ("python server.py", "1.2.3", ""),
        ("npx ./server", "1.2.3", "npx ./server"),
    ],
)
def test_the_pinned_form_states_the_version_of_the_entry(line: str, version: str, pinned: str) -> None:
    assert pinned_form(launch(line), version) == pinned


def test_the_pinned_form_of_a_script_is_its_command_alone() -> None:
    assert pinned_form(Launch(command="sh", args=("-c", "npx -y pkg")), "1.2.3") == "npx -y pkg@1.2.3"


@pytest.mark.parametrize(
    ("line", "url"),
    [
        ("npx @scope/name@1.2.3", "pkg:npm/%40scope/name@1.2.3"),
        ("npx name", "pkg:npm/name"),
        ("npx name@^1", "pkg:npm/name"),
        ("uvx Some_Package.Name==1.2.3+local", "pkg:pypi/some-package-name@1.2.3%2Blocal"),
        (
            f"docker run ghcr.io/acme/Server:1.2@{DIGEST}",
            f"pkg:oci/server@{DIGEST.replace(':', '%3A')}?repository_url=ghcr.io/acme/Server&tag=1.2",
        ),
        ("docker run redis", "pkg:oci/redis?repository_url=docker.io/library/redis"),
        ("npx github:acme/server", None),
        ("npx https://example.com/server.tgz", None),
    ],
)
def test_a_package_url_names_the_package(line: str, url: str | None) -> None:
    (package,) = packages_of(launch(line))

    assert package_url(package) == url


def test_a_requirement_may_name_an_address() -> None:
    record = Launch(command="uvx", args=("--from", "pkg @ https://example.com/pkg.whl", "command"))

    assert package_of(record) == Package(kind="url", name="https://example.com/pkg.whl")


def test_any_number_of_aliases_lead_to_the_package_behind_them() -> None:
    found = read_package("npm", "a@npm:" * 100_000 + "@acme/server@1.2.3")

    assert found is not None
    assert (found.name, found.version) == ("@acme/server", "1.2.3")
