"""Runs the command line: ``python -m fdcheck``."""

from fdcheck.cli import main

if __name__ == "__main__":
    main(prog_name="fdcheck")
