"""A stand-in for the `jq` program, as far as the documentation uses it: `jq [-c] [-r] [-S] FILTER [FILE ...]`."""

import argparse
import json
import sys
from pathlib import Path

import jq


def main() -> None:
    """Print every result of the filter."""
    parser = argparse.ArgumentParser(prog="jq")
    parser.add_argument("-c", "--compact-output", action="store_true")
    parser.add_argument("-r", "--raw-output", action="store_true")
    parser.add_argument("-S", "--sort-keys", action="store_true")
    parser.add_argument("filter")
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    texts = [path.read_text(encoding="utf-8") for path in options.files] or [sys.stdin.read()]
    layout = (",", ":") if options.compact_output else (",", ": ")
    for result in jq.compile(options.filter).input_text("".join(texts)):
        if options.raw_output and isinstance(result, str):
            shown = result
        else:
            shown = json.dumps(
                result,
                indent=None if options.compact_output else 2,
                separators=layout,
                ensure_ascii=False,
                sort_keys=options.sort_keys,
            )
        sys.stdout.write(f"{shown}\n")


if __name__ == "__main__":
    main()
