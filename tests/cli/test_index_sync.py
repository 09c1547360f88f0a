"""`agent index sync`: sources are fetched whole or not at all, and kept with their digests."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agent_resolver.exchange import MAX_PAGES, is_source_name, source_name
from tests.cli.conftest import contents, edit
from tests.conftest import Run
from tests.exchange.registry_server import OFFICIAL, RegistryServer, listed, registry_server


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with registry_server() as server:
        server.servers = [listed(f"org/{name}") for name in "edcba"]
        yield server


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("agent_resolver.exchange.sync.MAX_FETCHED_BYTES", 1_000_000)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return folder


def stored(here: Path, name: str) -> list[Any]:
    files = sorted((here / "mcp.sources" / name).glob("*.json"))
    return [server for file in files for server in json.loads(file.read_bytes())["servers"]]


def names(servers: list[Any]) -> list[str]:
    return [f"{each['server']['name']}@{each['server']['version']}" for each in servers]


def test_every_page_of_a_registry_is_fetched_and_kept_in_order(here: Path, run: Run, registry: RegistryServer) -> None:
    ran = run("index", "sync", registry.url, "--name", "reg")

    assert ran.code == 0
    assert ran.stdout.startswith(f"✓ {registry.url}: 5 servers fetched, 2 files written\n")
    assert names(stored(here, "reg")) == [f"org/{name}@1.0.0" for name in "abcde"]
    manifest = json.loads((here / "mcp.sources" / "reg.sync").read_bytes())
    assert manifest["url"] == registry.url
    assert len(manifest["fetched"]) == 3
    assert all(part["digest"].startswith("sha256-") and part["bytes"] for part in manifest["fetched"])
    assert list(manifest["files"]) == ["servers-0001.json"]


def test_an_older_registry_is_asked_by_its_older_path(here: Path, run: Run, registry: RegistryServer) -> None:
    registry.has_newest = False

    assert run("index", "sync", registry.url, "--name", "reg").code == 0
    assert run("index", "sync", f"{registry.url}/v0/servers", "--name", "other").code == 0
    assert stored(here, "reg") == stored(here, "other")


def test_the_next_sync_asks_only_for_what_changed(here: Path, run: Run, registry: RegistryServer) -> None:
    assert run("index", "sync", registry.url, "--name", "reg").code == 0
    newer = "2026-02-02T00:00:00Z"
    registry.servers = [
        *registry.servers,
        listed("org/f", updated=newer),
        {**listed("org/a", updated=newer), "changed": True},
    ]

    ran = run("index", "sync", registry.url, "--name", "reg", "--json")

    assert "updated_since=2025-12-31T23%3A00%3A00Z" in registry.asked[-1]
    (document,) = json.loads(ran.stdout)["sources"]
    assert document["updated"] == newer
    kept = stored(here, "reg")
    assert names(kept) == [f"org/{name}@1.0.0" for name in "abcdef"]
    assert kept[0]["changed"] is True


def test_a_change_behind_the_page_that_is_read_is_not_lost(here: Path, run: Run, registry: RegistryServer) -> None:
    """A server changes after its page was read, and one on a later page changes after that."""
    registry.servers = [listed("org/a"), listed("org/b"), listed("org/c")]

    def change() -> None:
        first = {**listed("org/a", updated="2026-01-05T00:00:00Z"), "changed": True}
        registry.servers = [first, listed("org/b"), listed("org/c", updated="2026-01-05T00:10:00Z")]

    registry.after_page = change
    assert run("index", "sync", registry.url, "--name", "reg").code == 0
    assert "changed" not in stored(here, "reg")[0]
    assert json.loads((here / "mcp.sources" / "reg.sync").read_bytes())["updated"] == "2026-01-05T00:10:00Z"

    assert run("index", "sync", registry.url, "--name", "reg").code == 0
    assert stored(here, "reg")[0]["changed"] is True


@pytest.mark.parametrize("updated", ["2999-01-01T00:00:00Z", "9999-99-99T99:99:99Z"])
def test_a_change_in_the_future_hides_no_other(here: Path, run: Run, registry: RegistryServer, updated: str) -> None:
    registry.servers = [listed("org/a", updated=updated)]
    assert run("index", "sync", registry.url, "--name", "reg").code == 0
    today = json.loads((here / "mcp.sources" / "reg.sync").read_bytes())["updated"]
    registry.servers.append(listed("org/b", updated=today))

    assert run("index", "sync", registry.url, "--name", "reg").code == 0
    assert names(stored(here, "reg")) == ["org/a@1.0.0", "org/b@1.0.0"]


def test_a_server_that_was_withdrawn_is_fetched_and_marked(here: Path, run: Run, registry: RegistryServer) -> None:
    """A registry lists what it has withdrawn only if it is asked to."""
    package = {"registryType": "npm", "identifier": "acme-tool", "version": "1.0.0"}
    entry = listed("org/tool")
    entry["server"]["packages"] = [package]
    registry.servers = [entry]
    assert run("index", "sync", registry.url, "--name", "reg").code == 0
    assert run("index", "import", "mcp.sources").code == 0

    entry["_meta"][OFFICIAL]["status"] = "deleted"
    assert run("index", "sync", registry.url, "--name", "reg", "--full").code == 0
    assert run("index", "import", "mcp.sources").code == 0

    (found,) = json.loads((here / "mcp.index.json").read_bytes())
    assert found["status"] == "deleted"


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1)} if depth else {}


@pytest.mark.parametrize("extra", [nested(100), nested(62), {"words": "x" * 2_000_000}, {"list": [[]] * 200_000}])
def test_one_server_that_cannot_be_imported_takes_no_other_with_it(
    here: Path, run: Run, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any]
) -> None:
    """A publisher gives a server of a public registry a description that no reader takes."""
    monkeypatch.setattr("agent_resolver.exchange.sync.MAX_FETCHED_BYTES", 10_000_000)
    registry.servers = [listed(f"org/{name}") for name in "ab"]
    for each in registry.servers:
        each["server"]["packages"] = [{"registryType": "npm", "identifier": "w", "version": "1.0.0"}]
    registry.servers[0]["server"]["more"] = extra

    ran = run("index", "sync", registry.url, "--name", "reg")

    assert ran.code == 0
    assert "warning: 1 server left out, too large or nested too deeply: org/a@1.0.0\n" in ran.stderr
    assert run("index", "import", "mcp.sources", "--strict").code == 0
    assert [entry["id"] for entry in json.loads((here / "mcp.index.json").read_bytes())] == ["org-b"]


def test_the_query_of_an_address_narrows_what_is_fetched(here: Path, run: Run, registry: RegistryServer) -> None:
    registry.servers = [listed("org/a"), listed("org/a", "2.0.0"), listed("org/b", "2.0.0")]

    assert run("index", "sync", f"{registry.url}/v0/servers?version=2.0.0", "--name", "reg").code == 0
    assert names(stored(here, "reg")) == ["org/a@2.0.0", "org/b@2.0.0"]


def test_a_sync_of_the_same_changes_no_server(here: Path, run: Run, registry: RegistryServer) -> None:
    assert run("index", "sync", registry.url, "--name", "reg").code == 0
    before = contents(here)

    assert run("index", "sync", registry.url, "--name", "reg", "--full").code == 0
    assert contents(here) == before
    assert "unchanged" in run("index", "sync", registry.url, "--name", "reg", "--full").stdout


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("circle", "names a page that it named before"),
        ("half", "was cut off in the middle"),
        ("html", "an HTML page"),
        ("garbage", "is not a page of the registry's API"),
        ("deep", "is not a page of the registry's API"),
        ("nameless", "lists a server without a name"),
        ("stream", "the most that is fetched at once"),
        ("drip", "took longer than"),
        ("broken", "HTTP 500"),
    ],
)
def test_a_registry_that_breaks_a_rule_leaves_everything_as_it_was(
    here: Path, run: Run, registry: RegistryServer, path: str, problem: str
) -> None:
    assert run("index", "sync", registry.url, "--name", "reg").code == 0
    before = contents(here)
    seconds = "0.5" if path == "drip" else "10"

    ran = run("index", "sync", f"{registry.url}/{path}/servers", "--name", "other", "--timeout", seconds)

    assert ran.code == 1
    assert problem in ran.stderr
    assert contents(here) == before


def test_a_registry_that_pages_for_ever_is_an_error(
    here: Path, run: Run, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_PAGES == 2_000
    monkeypatch.setattr("agent_resolver.exchange.registry_api.MAX_PAGES", 20)

    ran = run("index", "sync", f"{registry.url}/endless/servers")

    assert ran.code == 1
    assert "has more than 20 pages" in ran.stderr
    assert not (here / "mcp.sources").exists()


@pytest.mark.parametrize(
    "target", ["http://example.com/servers", "https://10.0.0.1/servers", "https://169.254.169.254/servers"]
)
def test_a_redirect_to_a_private_address_or_to_http_is_refused(
    here: Path, run: Run, registry: RegistryServer, target: str
) -> None:
    ran = run("index", "sync", f"{registry.url}/to/file.json?url={target}")

    assert ran.code == 1
    assert "private address" in ran.stderr or "is not an `https` address" in ran.stderr
    assert not (here / "mcp.sources").exists()


def test_a_file_is_kept_as_it_is(here: Path, run: Run, registry: RegistryServer) -> None:
    assert run("index", "sync", f"{registry.url}/file/catalogue.yaml", "--name", "one").code == 0

    assert (here / "mcp.sources" / "one" / "source.yaml").read_bytes() == b"servers:\n  - a\n"
    assert run("index", "sync", f"{registry.url}/empty/x.json", "--name", "two").code == 1


def test_one_source_that_fails_keeps_no_other_from_being_stored(here: Path, run: Run, registry: RegistryServer) -> None:
    ran = run("index", "sync", f"{registry.url}/html/servers", registry.url)

    assert ran.code == 1
    assert len(stored(here, "127.0.0.1")) == 5


def test_a_file_that_was_edited_is_noticed(here: Path, run: Run, registry: RegistryServer) -> None:
    assert run("index", "sync", registry.url, "--name", "reg").code == 0
    edit(here / "mcp.sources" / "reg" / "servers-0001.json", "org/a", "org/evil")

    ran = run("index", "sync", registry.url, "--name", "reg")

    assert ran.code == 1
    assert "it was edited since it was stored" in ran.stderr
    assert run("index", "sync", registry.url, "--name", "reg", "--full").code == 0
    assert names(stored(here, "reg"))[0] == "org/a@1.0.0"


@pytest.mark.parametrize(
    "files",
    [
        {"../../outside.json": "x"},
        {"servers-0001.json": "sha256-4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"},
        {"absent.json": "x"},
    ],
)
def test_a_store_that_a_repository_brings_is_not_believed(
    here: Path, run: Run, registry: RegistryServer, files: dict[str, str]
) -> None:
    (here / "mcp.sources" / "reg").mkdir(parents=True)
    (here / "mcp.sources" / "reg" / "servers-0001.json").write_text("[]")
    manifest = {"url": registry.url, "kind": "registry", "files": files}
    (here / "mcp.sources" / "reg.sync").write_text(json.dumps(manifest))
    outside = here.parent / "outside.json"
    outside.write_text("mine")

    ran = run("index", "sync", registry.url, "--name", "reg")
    run("index", "sync", registry.url, "--name", "reg", "--full")

    assert ran.code == 1
    assert "fetch all of it again with `--full`" in ran.stderr
    assert outside.read_text() == "mine"


@pytest.mark.parametrize("link", ["mcp.sources", "mcp.sources/reg", "mcp.sources/reg.sync"])
def test_a_link_that_leads_out_of_the_project_is_not_written_through(
    here: Path, run: Run, registry: RegistryServer, link: str
) -> None:
    """A repository brings a link to a folder of the user, and hopes for a sync."""
    outside = here.parent / "outside"
    outside.mkdir()
    (here / link).parent.mkdir(exist_ok=True)
    (here / link).symlink_to(outside if not link.endswith(".sync") else outside / "new.json")

    ran = run("index", "sync", registry.url, "--name", "reg", "--full")

    assert ran.code == 1
    assert "leads out of the folder of the source" in ran.stderr
    assert "hint: remove the link" in ran.stderr
    assert list(outside.iterdir()) == []


def test_two_sources_do_not_share_a_name(here: Path, run: Run, registry: RegistryServer) -> None:
    assert run("index", "sync", registry.url, "--name", "reg").code == 0

    before = contents(here)

    for more in ([], ["--full"]):
        ran = run("index", "sync", f"{registry.url}/v0/servers", "--name", "reg", *more)

        assert ran.code == 1
        assert "keeps another source" in ran.stderr
        assert contents(here) == before


@pytest.mark.parametrize("path", ["servers?api_key=hunter2", "file.yaml?sig=hunter2", "servers#token=hunter2"])
def test_an_address_with_a_secret_is_neither_kept_nor_shown(
    here: Path, run: Run, registry: RegistryServer, path: str
) -> None:
    ran = run("index", "sync", f"{registry.url}/{path}")

    assert ran.code == 1
    assert "holds what looks like a secret" in ran.stderr
    assert "hunter2" not in ran.stdout + ran.stderr
    assert registry.asked == []
    assert contents(here) == {}


def test_the_signed_address_of_a_redirect_is_neither_kept_nor_shown(
    here: Path, run: Run, registry: RegistryServer
) -> None:
    signed = quote("/file/a.yaml?X-Amz-Signature=hunter2")
    lost = quote("/gone/a.yaml?X-Amz-Signature=hunter2")

    assert run("index", "sync", f"{registry.url}/to/file.yaml?url={signed}", "--name", "file").code == 0
    ran = run("index", "sync", f"{registry.url}/to/file.yaml?url={lost}", "--name", "other")

    assert "HTTP 404" in ran.stderr
    assert "hunter2" not in ran.stdout + ran.stderr
    fetched = json.loads((here / "mcp.sources" / "file.sync").read_bytes())["fetched"]
    assert [part["url"] for part in fetched] == [f"{registry.url}/…"]


def test_git_calls_the_addresses_that_were_judged(
    here: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of a name may answer with a public address first, and with a private one when git asks."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)

    run("index", "sync", "--git", "https://localhost:8443/catalogue.git", "--allow-private")

    (setting,) = re.findall(r"-c http\.curloptResolve=localhost:8443:(\S+) ", (tmp_path / "asked").read_text())
    assert set(setting.split(",")) <= {"127.0.0.1", "[::1]"}


def test_a_name_never_leads_out_of_the_folder(here: Path, run: Run, registry: RegistryServer) -> None:
    for name in ("../x", "a/b", "..", "/x", ".hidden", "a\x1b", ""):
        assert not is_source_name(name)
    assert run("index", "sync", registry.url, "--name", "../x").code == 2
    assert source_name("https://registry.example/../..//%2e%2e/servers.git") == "registry.example-..-..-2e-2e-servers"
    assert is_source_name(source_name("https://registry.example/../../servers"))


def test_settings_name_sources_once_the_folder_is_trusted(here: Path, run: Run, registry: RegistryServer) -> None:
    (here / "agent.toml").write_text(f'[index]\nsources = ["{registry.url}"]\n')

    untrusted = run("index", "sync")
    assert untrusted.code == 1
    assert "its settings name addresses to call" in untrusted.stderr
    assert registry.asked == []
    assert run("trust-folder").code == 0
    assert run("index", "sync").code == 0
    assert run("index", "sync", "--allow-private").code == 2


def test_nothing_to_fetch_is_a_usage_error(here: Path, run: Run) -> None:
    assert run("index", "sync").code == 2
    assert run("index", "sync", "https://a.example", "--timeout", "0").code == 2
    assert run("index", "sync", "https://a.example", "https://b.example", "--name", "x").code == 2
    assert list(here.iterdir()) == []


# Repositories ---------------------------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=tests", "-c", "user.email=tests@example.com")
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, encoding="utf-8"
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "servers").mkdir(parents=True)
    (folder / "servers" / "a.yaml").write_text("name: a\n")
    (folder / "README.md").write_text("Text.\n")
    (folder / "link.json").symlink_to("/etc/passwd")
    git(folder, "init", "--quiet")
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", "One")
    return folder


def test_the_data_files_of_a_repository_are_kept(here: Path, run: Run, repository: Path) -> None:
    ran = run("index", "sync", "--git", str(repository), "--name", "repo", "--json")

    assert ran.code == 0
    (document,) = json.loads(ran.stdout)["sources"]
    assert document["commit"] == git(repository, "rev-parse", "HEAD")
    kept = contents(here / "mcp.sources" / "repo")
    assert kept["servers/a.yaml"] == b"name: a\n"
    # Without links, git writes where a link leads as the text of a file.
    assert kept.get("link.json", b"/etc/passwd") == b"/etc/passwd"
    assert "README.md" not in kept


def test_a_file_that_left_the_repository_leaves_the_store(here: Path, run: Run, repository: Path) -> None:
    assert run("index", "sync", "--git", str(repository), "--name", "repo").code == 0
    git(repository, "mv", "servers/a.yaml", "b.yaml")
    git(repository, "commit", "--quiet", "-m", "Two")
    own = here / "mcp.sources" / "repo" / "own.txt"
    own.write_text("mine")

    assert run("index", "sync", "--git", str(repository), "--name", "repo").code == 0
    assert set(contents(here / "mcp.sources" / "repo")) - {"link.json"} == {"b.yaml", "own.txt"}


@pytest.mark.parametrize(
    "repository_address",
    [
        "ext::sh -c touch% pwned",
        "http://example.com/x.git",
        "ssh://example.com/x",
        "--upload-pack=touch pwned",
        "https://127.0.0.1:1/x",
    ],
)
def test_only_https_and_folders_are_cloned(here: Path, run: Run, repository_address: str) -> None:
    ran = run("index", "sync", f"--git={repository_address}", "--name", "repo")

    assert ran.code == 1
    assert list(here.rglob("*")) == []


def test_settings_never_name_a_folder_to_clone(here: Path, run: Run, repository: Path) -> None:
    (here / "agent.toml").write_text(f'[index]\nsources = ["git+{repository}"]\n')

    ran = run("index", "sync", "--trust")

    assert ran.code == 1
    assert "is a folder of this machine, which only the command line may name" in ran.stderr


def test_a_folder_that_is_not_a_repository_is_an_error(here: Path, run: Run, tmp_path: Path) -> None:
    ran = run("index", "sync", "--git", str(tmp_path), "--name", "x")

    assert ran.code == 1
    assert "cannot be cloned" in ran.stderr
    assert not (here / "mcp.sources").exists()


def bring_manifest(here: Path, repository: Path, files: dict[str, str]) -> None:
    """Put a manifest into the project as a repository would bring it."""
    (here / "mcp.sources").mkdir(exist_ok=True)
    manifest = {"url": str(repository), "kind": "git", "files": files}
    (here / "mcp.sources" / "repo.sync").write_text(json.dumps(manifest))


@pytest.mark.parametrize("name", ["../../.env", "../other/.env", "a/../../../.env", "/.env", "./x", "a//x", "", "a\0"])
def test_a_manifest_never_removes_a_file_of_the_project(here: Path, run: Run, repository: Path, name: str) -> None:
    secret = here / ".env"
    secret.write_text("mine")
    (here / "mcp.sources" / "other").mkdir(parents=True)
    (here / "mcp.sources" / "other" / ".env").write_text("mine")
    bring_manifest(here, repository, {name: f"sha256-{sha256(b'mine').hexdigest()}"})

    ran = run("index", "sync", "--git", str(repository), "--name", "repo")

    assert ran.code == 1
    assert "it names a file outside of the folder of the source" in ran.stderr
    assert run("index", "sync", "--git", str(repository), "--name", "repo", "--full").code == 0
    assert secret.read_text() == "mine"
    assert (here / "mcp.sources" / "other" / ".env").read_text() == "mine"
    assert (here / "mcp.sources" / "repo" / "servers" / "a.yaml").exists()


def test_a_file_that_is_not_what_was_stored_is_not_removed(here: Path, run: Run, repository: Path) -> None:
    own = here / "mcp.sources" / "repo" / "own.txt"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    bring_manifest(here, repository, {"own.txt": "x", "absent.txt": "x"})

    assert run("index", "sync", "--git", str(repository), "--name", "repo").code == 0
    assert own.read_text() == "mine"


@pytest.mark.parametrize(
    ("link", "target"),
    [("mcp.sources/repo", ".."), ("mcp.sources/repo/servers", "../.."), ("mcp.sources", "."), ("mcp.sources", "docs")],
)
def test_a_link_within_the_project_is_not_followed(
    here: Path, run: Run, repository: Path, link: str, target: str
) -> None:
    """A repository links the folder of a source to that of the project, and hopes for a sync."""
    (here / "docs").mkdir()
    (here / "a.yaml").write_text("mine")
    (here / link).parent.mkdir(parents=True, exist_ok=True)
    (here / link).symlink_to(target)
    before = contents(here)

    for mode in ((), ("--full",)):
        ran = run("index", "sync", "--git", str(repository), "--name", "repo", *mode)
        assert ran.code == 1
        assert "a link leads out of the folder of the source" in ran.stderr
        assert contents(here) == before


def test_a_manifest_removes_nothing_through_a_link(here: Path, run: Run, repository: Path) -> None:
    (here / ".env").write_text("mine")
    (here / "mcp.sources" / "repo").mkdir(parents=True)
    (here / "mcp.sources" / "repo" / "up").symlink_to("../..")
    bring_manifest(here, repository, {"up/.env": f"sha256-{sha256(b'mine').hexdigest()}"})

    assert run("index", "sync", "--git", str(repository), "--name", "repo").code == 1
    assert (here / ".env").read_text() == "mine"
