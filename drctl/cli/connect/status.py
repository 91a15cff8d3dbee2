"""Shows connectors and why they failed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from drctl.cli.connect import wiring as connect_wiring
from drctl.cli.console import console
from drctl.cli.settings import configuration, configuration_if_any
from drctl.connectors.diagnosis import Ward, status_document
from drctl.model.errors import DrctlError, ExitCode

if TYPE_CHECKING:
    from drctl.cli.connect.wiring import ConnectCluster


def show_status(connect: tuple[str, ...], link: str | None) -> int:
    """All connectors of the workers that were given, or of those of the links."""
    from drctl.cli.connect.table import status_table

    if connect:
        config = configuration_if_any()
        known = tuple(connect_wiring.typed_workers(text, config) for text in connect)
    else:
        known = connect_wiring.known_workers(configuration(), link)
    with console().task("asking the workers"):
        wards = [look_at(cluster) for cluster in known]
    console().result(lambda: status_table(wards), status_document(wards))
    return int(_exit_code(wards))


def look_at(cluster: "ConnectCluster") -> Ward:
    """The connectors of one Connect cluster, or why they could not be asked."""
    where = cluster.place
    try:
        with connect_wiring.ward(cluster) as opened:
            return Ward(where, tuple(opened.all().values()))
    except DrctlError as silent:
        return Ward(where, (), silent.message)


def _exit_code(wards: Sequence[Ward]) -> ExitCode:
    if any(ward.silent for ward in wards):
        return ExitCode.UNKNOWN
    found = any(ward.findings or ward.unassigned for ward in wards)
    return ExitCode.FOUND if found else ExitCode.DONE
