"""Cuts a text that is too long for its place."""


def shorten(text: str, limit: int) -> str:
    """The text on one line of at most `limit` characters, cut behind a word and ended with an ellipsis.

    Args:
        text: The text. Runs of blanks and line breaks become one blank.
        limit: The most characters of the result, at least 1.
    """
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    room = limit - 1  # The ellipsis takes one character.
    is_cut_behind_a_word = line[room] == " "
    start = line[:room] if is_cut_behind_a_word else line[:room].rpartition(" ")[0]
    # Of a single word that is too long, as much as fits is better than nothing.
    return f"{start.rstrip() or line[:room]}…"
