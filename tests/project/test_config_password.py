"""No layer of the settings, and no message about them, shows a password."""

import pytest

from agent_resolver.project import InvalidConfig, masked
from tests.project.test_config import load


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://ada:secret@db/state", "postgresql://ada:***@db/state"),
        ("postgresql://ada:secret@db:5432/state?sslmode=require", "postgresql://ada:***@db:5432/state?sslmode=require"),
        ("postgresql://:secret@db/state", "postgresql://:***@db/state"),
        ("postgresql://ada:@db/state", "postgresql://ada:***@db/state"),
        ("postgresql://ada:se/cr:et@db/state", "postgresql://ada:***@db/state"),
        ("postgresql://ada:se@cret@db/state", "postgresql://ada:***@db/state"),
        ("postgresql://db/state?user=ada&password=secret", "postgresql://db/state?user=ada&password=***"),
        ("postgresql://db/state?Password=secret&user=ada", "postgresql://db/state?Password=***&user=ada"),
        ("postgresql://db/state?password=sec#ret&user=ada", "postgresql://db/state?password=***&user=ada"),
        ("postgresql://db/state?pass%77ord=secret", "postgresql://db/state?pass%77ord=***"),
        ("postgresql://db/state?user=ada&sslpassword=secret", "postgresql://db/state?user=ada&sslpassword=***"),
        ("host=db password=secret user=ada", "host=db password=*** user=ada"),
        ("postgresql://ada:se?cret@db/state", "postgresql://ada:***@db/state"),
        ("postgresql://ada@db/state", "postgresql://ada@db/state"),
        ("postgresql://db:5432/state", "postgresql://db:5432/state"),
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db"),
    ],
)
def test_a_password_is_shown_by_no_layer(url: str, expected: str) -> None:
    for loaded in (
        load(f"[state]\nurl = '{url}'"),
        load(AGENT_STATE_URL=url),
        load("", f"state.url={url}"),
        load("", f"state.url='{url}'"),
    ):
        assert loaded.config.state.url == url
        assert [setting.value for setting in loaded.settings if setting.key == "state.url"] == [expected]
        assert "secret" not in repr([setting.value for setting in loaded.settings])


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (r"host=db password = 'my \' secret' user=ada", "host=db password = *** user=ada"),
        ("host=db sslPassword='secret", "host=db sslPassword=***"),
        ("the password is no pair", "the password is no pair"),
    ],
)
def test_a_password_among_pairs_is_masked(address: str, expected: str) -> None:
    assert masked(address) == expected


def test_what_is_no_text_is_shown_as_it_is() -> None:
    assert masked(["://a:b@c"]) == ["://a:b@c"]
    assert masked(5) == 5


def test_a_password_is_in_no_word_about_a_fault() -> None:
    with pytest.raises(InvalidConfig) as caught:
        load("", "state.urll=postgresql://ada:secret@db/state")

    assert "secret" not in f"{caught.value} {caught.value.source} {caught.value.issues}"
