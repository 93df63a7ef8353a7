"""`python -m lakehouse` is the command line."""

from lakehouse.cli import run

if __name__ == "__main__":
    run()
