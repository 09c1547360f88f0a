"""Searches the index of a catalog, and ranks what it finds."""

from typing import Final

from agent_resolver.catalog.index import CatalogIndex
from agent_resolver.catalog.listing import COLUMNS, Listed, listed
from agent_resolver.catalog.query import Query, View
from agent_resolver.catalog.search_text import match_any, match_well, search_terms

_WEIGHTS: Final = "8, 5, 4, 3, 1"
"""How much a word counts in the name, the capabilities, the tags, `useWhen` and the description."""
_COMMON: Final = 500
"""A word that more agents have than this is common: to rank all of them would take too long."""
_ALL: Final = -1
"""The limit with which SQLite gives every row."""


def search_index(
    index: CatalogIndex,
    query: Query,
    view: View,
    limit: int | None,
) -> tuple[Listed, ...]:
    """The agents of a view that fit a query: the best fit for the text first, else by name; None for all of them."""
    most = _ALL if limit is None else limit
    conditions = [view.condition]
    values = []
    if query.capability is not None:
        conditions.append("file IN (SELECT file FROM capability WHERE capability = ?)")
        values.append(query.capability.casefold())
    if query.role is not None:
        conditions.append("file IN (SELECT file FROM role WHERE role = ?)")
        values.append(query.role)
    if query.model is not None:
        conditions.append("model = ?")
        values.append(query.model)
    where = " AND ".join(conditions)
    if query.text.strip():
        return _search_text(index, query.text, where, values, most)
    sql = f"SELECT {COLUMNS} FROM agent WHERE {where} ORDER BY name, uri LIMIT ?"  # noqa: S608 - fixed words
    return tuple(map(listed, index.rows(sql, [*values, most])))


def _search_text(
    index: CatalogIndex,
    text: str,
    where: str,
    values: list[str],
    limit: int,
) -> tuple[Listed, ...]:
    terms = search_terms(text)
    if not terms:
        return ()
    rare = [term for term in terms if _is_rare(index, term)]
    if not rare and limit > 0:
        # Very many agents have each of these words. Better fits come first, and suffice
        # if they fill the answer.
        for question in match_well(terms):
            best = _ranked(index, question, where, values, limit)
            if len(best) == limit:
                return best
    return _ranked(index, match_any(terms, rare), where, values, limit)


def _is_rare(index: CatalogIndex, term: str) -> bool:
    # The inner limit ends the count as soon as the word is known to be common.
    question = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    return int(index.rows(question, [term, _COMMON + 1])[0][0]) <= _COMMON


def _ranked(
    index: CatalogIndex,
    question: str,
    where: str,
    values: list[str],
    limit: int,
) -> tuple[Listed, ...]:
    """The best fits for a question of the index; those that fit equally well by name."""
    columns = ", ".join(f"agent.{column}" for column in COLUMNS.split(", "))
    sql = (
        f"SELECT {columns}, bm25(words, {_WEIGHTS}) AS score"  # noqa: S608
        f" FROM words JOIN agent ON agent.file = words.rowid WHERE words MATCH ? AND {where}"
        " ORDER BY score, agent.name, agent.uri LIMIT ?"
    )
    return tuple(
        listed(row[:-1]) for row in index.rows(sql, [question, *values, limit])
    )
