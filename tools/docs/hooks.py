"""Hooks of the docs site, which MkDocs calls: they add the pages at the root of the repository, and mend links."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
SHIM = ROOT / "build" / "docs" / "node_modules" / "iframe-worker" / "shim" / "index.js"
"""A browser starts no worker for a page that was opened as a file. With this script the search works there too."""
SHIM_NAME = "javascripts/iframe-worker.js"
"""Its address on the site; without one, the plugin `offline` would fetch the script from another site."""
ROOT_PAGES = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "LICENSE": "license.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Maps each page outside of `docs` to its name on the site."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in `docs`, with their links as the site needs them."""
    for path, name in ROOT_PAGES.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=_site_links(text, Path(path).parent)))
    files.append(File.generated(config, SHIM_NAME, content=SHIM.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Point links that leave `docs` at the pages of the site."""
    return _site_links(markdown, Path("docs")) if page.file.generated_by is None else markdown


def _site_links(text: str, folder: Path) -> str:
    """Rewrite the links of a page that is in this folder of the repository."""

    def rewritten(found: re.Match[str]) -> str:
        before, target, anchor = found.group(1), found.group(2), found.group(3) or ""
        normal = _without_dots(folder / target)
        if normal in ROOT_PAGES:
            return f"{before}{ROOT_PAGES[normal]}{anchor}"
        if normal.startswith("docs/"):
            return f"{before}{normal.removeprefix('docs/')}{anchor}"
        return found.group()

    return re.sub(r"(\]\(|srcset=\"|src=\")([\w./-]+)(#[\w-]*)?(?=[)\"])", rewritten, text)


def _without_dots(path: Path) -> str:
    """The path with each `..` applied to the folder before it."""
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts = parts[:-1]
        else:
            parts.append(part)
    return "/".join(parts)
