"""`python -m dmltune` is `dmltune`."""

import sys

from dmltune.cli import main

if __name__ == "__main__":
    sys.exit(main())
