"""Both clusters of a link one after the other, for checks that ask the same of each."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from drctl.checks.check import Verdict, seen, separately
from drctl.checks.observed import Observed, Topics
from drctl.checks.surveyed import ClusterSurvey
from drctl.model.survey import Layout, Replicas
from drctl.model.topology import TopicPartition, TopicState, Unavailable

DESCRIBE = "`kafka-topics --describe` and `kafka-configs --describe` show it"


class Side(NamedTuple):
    """One cluster.

    Attributes:
        topics: of the link, or their copies.
        carried: whether a topic of this name is one of these.
    """

    name: str
    survey: ClusterSurvey
    topics: Topics | Unavailable
    carried: Callable[[str], bool]

    @property
    def subject(self) -> str:
        """In words for a person."""
        return f"cluster {self.name}"

    def layout(self) -> Layout:
        """Its brokers and replicas.

        Raises:
            NotObserved: nobody has seen them.
        """
        return seen(self.survey.layout, self.subject, "its brokers and replicas are", DESCRIBE)

    def partitions(self) -> Mapping[TopicPartition, Replicas]:
        """Those that a failover needs: of the link's topics, and of Kafka's and drctl's own.

        Raises:
            NotObserved: nobody has seen them.
        """
        known = self.layout().partitions
        return {
            place: each
            for place, each in known.items()
            if place.topic.startswith("__") or self.carried(place.topic)
        }

    def configured(self) -> Mapping[str, TopicState]:
        """Its topics of the link whose configuration may be read.

        Raises:
            NotObserved: nobody has seen them.
        """
        known = seen(self.topics, self.subject, "its topics are", DESCRIBE)
        return {
            name: state
            for name, state in sorted(known.items())
            if isinstance(state, TopicState) and state.config and self.carried(name)
        }


def sides(observed: Observed) -> tuple[Side, Side]:
    """The source and the target."""
    link, survey = observed.link, observed.survey

    def copy(name: str) -> bool:
        origin = link.source_topic(name)
        return origin is not None and link.carries(origin)

    return (
        Side(link.source, survey.source, observed.source_topics, link.carries),
        Side(link.target, survey.target, observed.target_topics, copy),
    )


def of_each(observed: Observed, judge: Callable[[Side], Verdict]) -> Iterator[Verdict]:
    """One verdict on each cluster; a dead one keeps nobody from judging the other."""
    yield from separately(partial(judge, side) for side in sides(observed))
