"""Categories from the words of catalogues."""

from agent_resolver.exchange import categories_of, category_aliases


def test_a_word_is_kept_and_its_category_added() -> None:
    assert categories_of(["Web Scraping", "web_search", "own-word"]) == (
        "own-word", "search", "web-scraping", "web-search",
    )  # fmt: skip


def test_words_that_say_nothing_about_the_purpose_are_left_out() -> None:
    assert categories_of(["remote", "MCP", " "]) == ()


def test_no_alias_is_a_category_of_its_own_that_means_something_else() -> None:
    aliases = category_aliases()
    categories = {category for found in aliases.values() for category in found}

    assert categories.isdisjoint(aliases)
    assert all(word == word.lower() and " " not in word for word in aliases)
