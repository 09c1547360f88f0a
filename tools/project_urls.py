"""Gives the package its project URLs while it is built, from the one address in `AGENT_RESOLVER_PROJECT_URL`.

The address is that of the repository on GitHub or GitLab. Where none is given the package names no URL.
"""

import os
import re
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

VARIABLE: Final = "AGENT_RESOLVER_PROJECT_URL"
PAGES: Final = {
    "Homepage": "",
    "Documentation": "/blob/HEAD/docs/index.md",
    "Changelog": "/blob/HEAD/CHANGELOG.md",
    "Issues": "/issues",
    "Security": "/blob/HEAD/SECURITY.md",
}
_ADDRESS: Final = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]+)?(/[A-Za-z0-9._~-]+)*/?")


class ProjectUrls(MetadataHookInterface):
    """Fills in `project.urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the URLs; hatchling calls it once for each build."""
        address = os.environ.get(VARIABLE, "")
        if not address:
            metadata["urls"] = {}
            return
        if not _ADDRESS.fullmatch(address):
            # The value may hold a password, so the message does not repeat it.
            raise SystemExit(
                f"{VARIABLE} must be an https address without user, query or spaces,"
                " such as https://example.org/agent-resolver"
            )
        base = address.rstrip("/")
        metadata["urls"] = {name: base + page for name, page in PAGES.items()}
