"""Run the command line with ``python -m retrofit``."""

from retrofit.cli import main

if __name__ == "__main__":
    main()
