"""Plugins of installed packages: found by name, loaded when they are asked for, and checked then."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_resolver.catalog import Catalog, CatalogIndex
from agent_resolver.project import InstalledPlugins, Session, TrustedFolders, UntrustedFolder, runtime_of
from agent_resolver.runtime import (
    AgentSpec,
    EnvBuild,
    InvalidPlugin,
    MapAgents,
    Plugin,
    PluginNotFound,
    RegistrySet,
    resolve_local,
)
from tests.runtime.sample import builder

Install = Callable[..., None]

NOTES = """\
class Notes:
    id = "notes"

    def register(self, registrar):
        registrar.key("notes")


shared = Notes()
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package of one module that offers plugins."""
    before = set(sys.modules)

    def install_package(package: str, code: str, **offers: str) -> None:
        site = tmp_path / package
        info = site / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (site / f"{package}.py").write_text(code)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = "".join(f"{name} = {package}:{place}\n" for name, place in offers.items())
        (info / "entry_points.txt").write_text(f"[agent_resolver.plugins]\n{lines}")
        monkeypatch.syspath_prepend(site)

    yield install_package
    for name in set(sys.modules) - before:
        del sys.modules[name]


def fault(plugin_id: str) -> str:
    with pytest.raises(InvalidPlugin) as caught:
        InstalledPlugins()[plugin_id]
    return str(caught.value)


def test_without_packages_there_are_none() -> None:
    found = InstalledPlugins()

    assert (list(found), len(found), "notes" in found, found.get("notes")) == ([], 0, False, None)


@pytest.mark.parametrize("place", ["Notes", "shared"])
def test_a_package_offers_a_plugin_or_a_class_of_one(install: Install, place: str) -> None:
    install("acme_notes", NOTES, notes=place)
    found = InstalledPlugins()

    assert list(found) == ["notes"]
    assert isinstance(found["notes"], Plugin)
    assert found["notes"] is found["notes"]


def test_nothing_of_a_package_runs_before_its_plugin_is_asked_for(install: Install) -> None:
    install("acme_notes", NOTES, notes="Notes")
    install("acme_broken", "raise RuntimeError('never')", broken="Broken")
    found = InstalledPlugins()

    assert (list(found), len(found), "notes" in found, "broken" in found) == (["broken", "notes"], 2, True, True)
    assert not {"acme_notes", "acme_broken"} & set(sys.modules)
    assert found["notes"].id == "notes"
    assert "acme_notes" in sys.modules
    assert "acme_broken" not in sys.modules


def test_what_cannot_be_loaded_is_told_with_its_package(install: Install) -> None:
    install("acme_broken", "raise RuntimeError('sorry')", broken="Broken")
    install("acme_gone", "", gone="Gone")
    install("acme_exits", "raise SystemExit(3)", exits="Exits")

    assert fault("broken") == (
        "plugin 'broken' cannot be used: `acme_broken:Broken` of acme_broken cannot be loaded: RuntimeError: sorry"
    )
    assert fault("gone").startswith(
        "plugin 'gone' cannot be used: `acme_gone:Gone` of acme_gone cannot be loaded: AttributeError"
    )
    assert fault("exits").endswith("cannot be loaded: SystemExit: 3")


def test_what_does_not_keep_the_contract_is_told_all_of_it(install: Install) -> None:
    install("acme_odd", "class Odd:\n    id = 'odd'\n    register = 5\n    bind = 6\n", odd="Odd")

    assert fault("odd") == "plugin 'odd' cannot be used: `register` is not a method; `bind` is not a method"


def test_a_plugin_has_the_name_that_it_is_offered_by(install: Install) -> None:
    install("acme_notes", NOTES, memos="Notes")

    assert fault("memos") == ("plugin 'memos' cannot be used: acme_notes offers it by that name, and its id is `notes`")


def test_two_packages_that_offer_one_are_both_named(install: Install) -> None:
    install("zeta_notes", NOTES, notes="Notes")
    install("acme_notes", NOTES, notes="Notes")

    assert fault("notes") == "plugin 'notes' cannot be used: it is offered by acme_notes and zeta_notes"
    assert not {"acme_notes", "zeta_notes"} & set(sys.modules)


def test_an_agent_gets_the_plugins_that_it_names(install: Install) -> None:
    install("acme_notes", NOTES, notes="Notes")
    install("acme_broken", "raise RuntimeError('never')", broken="Broken")
    install(
        "acme_late", "class Late:\n    id = 'late'\n    def register(self, registrar):\n        1 / 0\n", late="Late"
    )
    parts = builder().build().snapshot

    def planned(*plugin_ids: str) -> list[str]:
        spec = AgentSpec(id="agent", model_id="m", plugin_ids=plugin_ids)
        made = RegistrySet(
            agents=MapAgents([spec]), models=parts.models, providers=parts.providers, plugins=InstalledPlugins()
        )
        return [plugin.id for plugin in resolve_local(made, "agent").env.plugins]

    assert planned() == ["loop_action_handlers", "max_rounds"]
    assert not {"acme_notes", "acme_broken", "acme_late"} & set(sys.modules)
    assert planned("notes") == ["notes", "loop_action_handlers", "max_rounds"]
    with pytest.raises(InvalidPlugin, match="acme_broken cannot be loaded: RuntimeError: never"):
        planned("notes", "broken")
    with pytest.raises(EnvBuild, match="plugin late: ZeroDivisionError: division by zero"):
        planned("late")
    with pytest.raises(PluginNotFound, match="plugin not found: note"):
        planned("note")


def test_an_agent_file_that_nobody_trusts_loads_no_plugin(install: Install, tmp_path: Path) -> None:
    install("acme_notes", NOTES, notes="Notes")
    project, shared = tmp_path / "project", tmp_path / "shared"
    for folder in (project, shared):
        folder.mkdir()
    (project / "agent.toml").write_text(
        "[models.small]\nprovider = 'local'\nupstream_model = 'small'\n[providers.local]\nadapter = 'scripted'\n"
    )
    (shared / "keeper.md").write_text("---\nname: keeper\nmodel: small\nruntime: {plugin_ids: [notes]}\n---\n")
    home = {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    with Session(str(project / "agents.md"), "mcp.index.json", environment=home) as session:
        catalog = Catalog([str(shared)], CatalogIndex(None))
        catalog.refresh()
        runtime = runtime_of(session, catalog)
        with pytest.raises(UntrustedFolder, match="its agent files load plugins of installed packages") as caught:
            runtime.resolve("keeper")
        assert caught.value.folders == (str(project), str(shared))
        assert "acme_notes" not in sys.modules
        for missing in caught.value.folders:
            TrustedFolders(home).add(missing)
        runtime.resolve("keeper")
        assert "acme_notes" in sys.modules
