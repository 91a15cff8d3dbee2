"""The smallest useful Typer program: what `drctl --help` is measured against."""

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
