"""`python -m agent_resolver`."""

import sys

from agent_resolver.cli import main

if __name__ == "__main__":
    sys.exit(main())
