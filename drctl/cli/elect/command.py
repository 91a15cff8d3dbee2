"""`drctl elect`: who leads the partitions of one cluster, and who shall."""

from typing import Annotated

import typer

from drctl.cli.shared_options import Execute, Overrides, Yes

app = typer.Typer(help="Leaders inside one cluster: who is back, preferred, or unclean.")

Cluster = Annotated[
    str | None,
    typer.Option(metavar="CLUSTER", help="A cluster of drctl.yaml; else the only one."),
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="Only this topic; may be repeated."),
]


@app.command()
def show(cluster: Cluster = None, topic: Topics = None) -> int:
    """Show partitions without a leader, and what each of their replicas holds.

    Reads only. Exit codes: 0 every partition has a leader that answers, 1 some have none, 5 the
    cluster does not answer.
    """
    from drctl.cli.elect.watch import watch

    return watch(cluster, tuple(topic or ()), 0.0)


@app.command()
def wait(
    cluster: Cluster = None,
    topic: Topics = None,
    within: Annotated[str, typer.Option(metavar="TIME", help="How long, at most.")] = "1h",
) -> int:
    """Wait until every partition has a leader again, and tell who comes back meanwhile.

    Reads only: a replica that was in sync leads again by itself, and nothing is lost. Exit codes:
    0 every partition has a leader that answers, 1 time was up, 5 the cluster does not answer, 130
    interrupted.
    """
    from drctl.cli.durations import seconds
    from drctl.cli.elect.watch import watch

    return watch(cluster, tuple(topic or ()), seconds(within, "--within", zero=True))


@app.command()
def preferred(
    cluster: Cluster = None,
    topic: Topics = None,
    execute: Execute = False,
    yes: Yes = False,
) -> int:
    """Give partitions back to their first replicas, where those are in sync; nothing is lost.

    Exit codes: 0 they lead, or nothing stands against it; 3 nobody was elected; 4 some were; 5 an
    answer did not come.
    """
    from drctl.cli.elect.run import ElectOptions, elect
    from drctl.elections.ports import Kind

    return elect(ElectOptions(Kind.PREFERRED, cluster, tuple(topic or ()), (), execute, yes))


@app.command()
def unclean(
    topic: Annotated[str, typer.Option(metavar="TOPIC", help="Of which all replicas are down.")],
    partition: Annotated[
        list[int], typer.Option(metavar="NUMBER", min=0, help="Of it; may be repeated.")
    ],
    cluster: Cluster = None,
    known_end: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NUMBER=OFFSET",
            help="Where the lost log of a partition ended, read from its disk; may be repeated.",
        ),
    ] = None,
    execute: Execute = False,
    yes: Yes = False,
    override: Overrides = None,
) -> int:
    """Have partitions led by a replica that is behind; what it lacks is lost for good.

    Says first, for each partition, which offsets would be lost and how that is known, or that it
    cannot be. Needs --override unclean=REASON. Exit codes: as of preferred.
    """
    from drctl.cli.elect.run import ElectOptions, elect
    from drctl.elections.ports import Kind

    given = ElectOptions(
        Kind.UNCLEAN,
        cluster,
        (topic,),
        tuple(dict.fromkeys(partition)),
        execute,
        yes,
        tuple(override or ()),
        tuple(known_end or ()),
    )
    return elect(given)
