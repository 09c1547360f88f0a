"""Words after a number: one tool, two tools."""


def plural(count: float, one: str, many: str = "") -> str:
    """The form of a word that fits the number; without `many`, the plural has an `s`."""
    if count == 1:
        return one
    return many or f"{one}s"


def counted(count: int, one: str, many: str = "") -> str:
    """The number and the word that fits it, such as `1 tool` or `1,200 tools`."""
    return f"{count:,} {plural(count, one, many)}"
