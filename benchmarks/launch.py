"""Run one command and print what it took, as JSON: `launch.py DIRECTORY STDERR COMMAND...`.

A process of its own, and a small one, because the kernel counts what the starting process held towards the peak memory
of a child, and a benchmark runner that has compared two large files holds more than the children it measures.
"""

import json
import os
import sys
import time


def launch(directory: str, errors: str, command: list[str]) -> dict[str, float]:
    """Run `command` in `directory`, its errors into a file, and return its time, peak memory and exit status."""
    os.chdir(directory)
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
    ]
    start = time.perf_counter()
    child = os.posix_spawn(command[0], command, os.environ, file_actions=files)
    _, status, usage = os.wait4(child, 0)
    seconds = time.perf_counter() - start
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return {"seconds": seconds, "memory": usage.ru_maxrss * unit, "status": os.waitstatus_to_exitcode(status)}


if __name__ == "__main__":
    print(json.dumps(launch(sys.argv[1], sys.argv[2], sys.argv[3:])))
