"""`python -m drctl`."""

from drctl.cli.main import program

if __name__ == "__main__":
    program()
