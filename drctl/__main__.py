"""`python -m drctl`."""

import sys

from drctl.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
