"""Run the command line with ``python -m retrofit``.

Python puts the working folder on its path then. It is taken off before anything else is imported: retrofit looks at
projects, and what lies in one as click.py or json.py must not run.
"""

import os
import sys

if __name__ == "__main__":
    try:
        here = os.getcwd()
    except OSError:  # it is gone
        here = ""
    if sys.path[:1] == [here]:
        del sys.path[0]

    from retrofit.cli import main

    main()
