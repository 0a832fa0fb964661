"""`python -m skyanchor.cli`."""

import sys

from skyanchor.cli.main import main

sys.exit(main())
