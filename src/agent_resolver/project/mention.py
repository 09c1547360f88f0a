"""The definitions that users of a project's agents may mention: those of the catalog, as far as each may see them."""

from agent_resolver.catalog.catalog import Catalog
from agent_resolver.catalog.errors import MalformedUri, UnknownAgent
from agent_resolver.catalog.query import View
from agent_resolver.catalog.uri import parse_uri
from agent_resolver.schema.caller import Caller


class CatalogDefinitions:
    """The texts of the agents in a catalog. No lock, no tool and no setting of an agent comes with its text."""

    def __init__(self, catalog: Catalog, *, is_strict: bool = False) -> None:
        """The texts in this catalog; a strict one has those alone that resolve."""
        self._catalog = catalog
        self._is_strict = is_strict

    async def definition(self, uri: str, caller: Caller) -> str | None:
        """The description and the prompt of an agent file.

        None for an agent that is not there, and for one that the caller may not see: which of both is not said.
        """
        view = View(is_strict=self._is_strict, clearance=caller.clearance)
        try:
            found = self._catalog.definition(parse_uri(uri), view=view)
        except (UnknownAgent, MalformedUri, UnicodeEncodeError):
            return None
        parts = (found.entry.description.strip(), found.content.strip())
        return "\n\n".join(filter(None, parts))
