"""The smallest useful Typer program: the baseline of `drctl --help`."""

import typer

app = typer.Typer()


@app.command()
def hello(name: str = "you") -> None:
    """Say hello."""
    print(f"hello {name}")


@app.command()
def goodbye(name: str = "you") -> None:
    """Say goodbye."""
    print(f"goodbye {name}")


if __name__ == "__main__":
    app()
