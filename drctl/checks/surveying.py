"""Looks at everything that only `doctor` judges: at both clusters at once, never for long."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from drctl.checks.glance import Glance
from drctl.checks.observing import PATIENCE_S
from drctl.checks.surveyed import (
    Ages,
    AnchorsSeen,
    ClientSeen,
    ClusterSurvey,
    RunSeen,
    Sampled,
    SecretFile,
    Surveyed,
)
from drctl.model.errors import DrctlError
from drctl.model.groups import Group
from drctl.model.survey import ClusterSurveyor
from drctl.model.topology import Unavailable

T = TypeVar("T")

NOT_ASKED = Unavailable("it is not asked for this link")


@dataclass(frozen=True, slots=True)
class SurveyPorts:
    """What is needed beyond `LinkPorts`; nothing of it can write.

    Each of these is used by one thread at a time, but beside the others. What is called may raise
    any `DrctlError`.

    Attributes:
        readers: the link's groups on the source.
        ages: None where no MirrorMaker 2 copies the link.
        anchors: gives None where there is no topic of anchors.
        sampled: None where the link does not keep offsets.
    """

    source: ClusterSurveyor
    target: ClusterSurveyor
    readers: Callable[[], Mapping[str, Group | Unavailable]]
    ages: Callable[[], Ages] | None
    anchors: Callable[[], AnchorsSeen | None]
    runs: Callable[[], tuple[RunSeen, ...]]
    sampled: Callable[[], Sampled] | None


class Survey:
    """One look; it begins at once.

    Args:
        files: that hold secrets.
        clients: whose settings were given.
    """

    def __init__(
        self,
        ports: SurveyPorts,
        files: Sequence[SecretFile],
        clients: Sequence[ClientSeen],
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._files, self._clients = files, clients
        self._source = Glance(lambda: surveyed_cluster(ports.source), patience_s)
        self._target = Glance(lambda: surveyed_cluster(ports.target), patience_s)
        self._ids = Glance(lambda: self._transactional_ids(ports.source), patience_s)
        self._readers = Glance(ports.readers, patience_s)
        self._ages = Glance(ports.ages, patience_s) if ports.ages else None
        self._anchors = Glance(ports.anchors, patience_s)
        self._runs = Glance(ports.runs, patience_s)
        self._sampled = Glance(ports.sampled, patience_s) if ports.sampled else None

    def seen(self) -> Surveyed:
        """What was seen; what did not answer is said not to."""
        source, target = self._source.answer(), self._target.answer()
        ids = self._ids.answer()
        return Surveyed(
            _unless_silent(source),
            _unless_silent(target),
            self._readers.answer(),
            ids,
            self._ages.answer() if self._ages else NOT_ASKED,
            self._anchors.answer(),
            self._runs.answer(),
            tuple(self._files),
            self._sampled.answer() if self._sampled else NOT_ASKED,
            tuple(self._clients),
        )

    def _transactional_ids(self, surveyor: ClusterSurveyor) -> tuple[str, ...] | Unavailable:
        # The same surveyor is asked in turn: by now nobody else asks it.
        seen = self._source.answer()
        return seen if isinstance(seen, Unavailable) else surveyor.transactional_ids()


def surveyed_cluster(surveyor: ClusterSurveyor) -> ClusterSurvey:
    """Everything of one cluster that can be seen.

    Raises:
        Unreachable: it does not answer at all.
    """
    layout = surveyor.layout()
    return ClusterSurvey(
        layout,
        tried(surveyor.features),
        tried(surveyor.settings),
        tried(surveyor.scram_users),
        tried(surveyor.quotas),
    )


def tried(question: Callable[[], T]) -> T | Unavailable:
    """The answer, or why there is none."""
    try:
        return question()
    except DrctlError as error:
        return Unavailable(error.message)


def _unless_silent(seen: ClusterSurvey | Unavailable) -> ClusterSurvey:
    return ClusterSurvey(*[seen] * 5) if isinstance(seen, Unavailable) else seen
