"""`python -m lakehouse` is the command line."""

from lakehouse.cli import main

if __name__ == "__main__":
    main()
