"""Finds the agent files below the folders of a catalog, and what beside them is left out."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from agent_resolver.catalog.errors import UnusableRoot
from agent_resolver.catalog.query import Finding
from agent_resolver.catalog.reader import left_out
from agent_resolver.schema.issue import Issue, IssueCode
from agent_resolver.storage.walk import Identity, files_below, identity

_MARKDOWN: Final = (".md", ".mdx", ".markdown")


class FolderScan:
    """Looks through the folders, which may come and go, and remembers what the last look found wrong."""

    def __init__(self, roots: Sequence[str]) -> None:
        """The scan of these folders or files; nothing is read before `scan`."""
        self.roots = tuple(roots)
        self.unusable: list[Finding] = []
        """What the last look could not take in."""
        self.passed_over: list[Finding] = []
        """Markdown that the last look did not take for agent files."""
        self._gone: set[str] = set()
        """The roots that cannot be used any more."""

    def scan(self, *, is_first: bool) -> list[dict[str, Identity]]:
        """The agent files of each root, as they are on the disk now; a file in two roots counts for the first."""
        self.unusable = []
        self.passed_over = []
        found: list[dict[str, Identity]] = []
        taken: set[str] = set()
        for root in self.roots:
            files = self._files_or_nothing(root, is_first=is_first)
            # Roots may overlap, or lead to one folder by a link. A single root cannot.
            if len(self.roots) > 1:
                real = _real_paths(root, files)
                files = {
                    path: seen
                    for path, seen in files.items()
                    if real[path] not in taken
                }
                taken.update(real.values())
            found.append(files)
        return found

    def _files_or_nothing(self, root: str, *, is_first: bool) -> dict[str, Identity]:
        """The files of a root, none where it went after the first look: the other roots go on."""
        try:
            files = self._files(root)
        except UnusableRoot as error:
            if is_first:
                raise
            self.unusable.append(Finding(root, left_out_file(str(error))))
            # One warning for each time that a root goes, not one for each look.
            if root not in self._gone:
                import logging

                logging.getLogger(__name__).warning("%s", error)
            self._gone.add(root)
            return {}
        self._gone.discard(root)
        return files

    def _files(self, root: str) -> dict[str, Identity]:
        unreadable: list[OSError] = []
        others: list[str] = []
        try:
            if os.path.isfile(root):
                files = {os.path.basename(root): identity(os.stat(root))}
            else:
                files = files_below(root, ".md", unreadable, others)
        except OSError as error:
            raise UnusableRoot(root, error.strerror or str(error)) from error
        if not _is_unicode(root):
            raise UnusableRoot(root, "its path is not UTF-8")
        self.unusable += [
            Finding(error.filename, left_out_file(str(error.strerror)))
            for error in unreadable
        ]
        self.passed_over += list(_passed_over(root, others, self.roots))
        # One text is quicker to look through than many paths.
        if _is_unicode("".join(files)):
            return files
        odd = sorted(path for path in files if not _is_unicode(path))
        self.unusable += [
            Finding(os.path.join(root, path), left_out_file("its path is not UTF-8"))
            for path in odd
        ]
        return {path: seen for path, seen in files.items() if path not in odd}


def _real_paths(root: str, files: Iterable[str]) -> dict[str, str]:
    """The place of each file of a root on the disk, without links in the path of the root."""
    place = os.path.realpath(root)
    if os.path.isfile(root):
        return dict.fromkeys(files, place)
    return {path: f"{place}/{path}" for path in files}


def _passed_over(
    root: str, others: list[str], roots: Sequence[str]
) -> Iterator[Finding]:
    """Hints for what looks like Markdown, or may hold it, and is not a regular file that ends in `.md`."""
    for path in sorted(filter(_is_unicode, others)):
        place = os.path.join(root, *path.split("/"))
        is_markdown = path.lower().endswith(_MARKDOWN)
        if os.path.islink(place):
            if (is_markdown or os.path.isdir(place)) and not _is_below(place, roots):
                yield Finding(
                    place, left_out("a symbolic link", "name its target with `--root`")
                )
        elif is_markdown:
            yield Finding(
                place, left_out("its name does not end in `.md`", "rename it")
            )


def _is_below(link: str, roots: Sequence[str]) -> bool:
    """True if a link leads to what a root has anyway."""
    target = os.path.realpath(link)
    return any(f"{target}/".startswith(f"{os.path.realpath(root)}/") for root in roots)


def left_out_file(reason: str) -> Issue:
    """The fault of a file that cannot be taken in."""
    return Issue(at=(), code=IssueCode.LIMIT, message=f"Left out: {reason}")


def _is_unicode(path: str) -> bool:
    """True if a path is UTF-8 on the disk."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
