"""Whether `drctl gap --ledger` may write to the cluster on which the ledger lives."""

from typing import TYPE_CHECKING

from drctl.cli.confirmation import confirm
from drctl.cli.console import console

if TYPE_CHECKING:
    from drctl.config.configuration import Config


def confirm_writing(config: "Config", *, execute: bool, yes: bool) -> None:
    """Ask where a cluster is to be written, say so where one is not; a file needs neither.

    Raises:
        Refused: nobody said yes.
    """
    place = config.file.ledger
    if place is None:
        return
    if execute:
        config.cluster(place.cluster)
        confirm(place.cluster, f"the ledger, in topic {place.topic}", yes=yes)
    else:
        console().note(
            f"the ledger in topic {place.topic} of {place.cluster} is only read: what was read now"
            " is not kept: add --execute"
        )
