"""Read the index and the agent files of a workspace, and do nothing with them: `read_workspace.py FOLDER`."""

import gc
import os
import sys

gc.disable()  # As the command does.

from agent_resolver.cli.input import load_index  # noqa: E402
from agent_resolver.project import members  # noqa: E402

load_index(os.path.join(sys.argv[1], "mcp.index.json"))  # noqa: PTH118 - it would be imported for this alone
list(members(sys.argv[1]))
os._exit(0)
