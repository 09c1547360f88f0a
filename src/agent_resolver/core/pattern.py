"""The pattern language of `forbid`: `*` stands for any run of characters, all else for itself."""


def matches(pattern: str, text: str) -> bool:
    """Whether `pattern` fits the whole of `text`, in time linear in practice and never exponential."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    start, end = len(first), len(text) - len(last)
    # The leftmost place for each part leaves the most room for the parts after it.
    for part in middle:
        found = text.find(part, start, end)
        if found < 0:
            return False
        start = found + len(part)
    return True
