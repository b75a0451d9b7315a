"""`python -m tdegnn`: the command line, where the command `tdegnn` is not on the path."""

from tdegnn.cli import main

if __name__ == "__main__":
    main()
