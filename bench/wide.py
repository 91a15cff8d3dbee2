"""The same records in very many partitions and in four, compared from the command line."""

from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from bench.filling import Appender, create_topics
from bench.process import WrongAnswer, drctl
from bench.records import PARTITIONS, Message, chunks
from bench.rows import Ratio, Row, Target
from bench.stage import Stage, link_over
from drctl.lab.cluster import LabCluster

PART = "wide"
_CREATE_S = 120
_SMALL_INDEX = {"segment.index.bytes": str(1 << 20)}
"""Not 10 MB per partition: brokers map indexes into memory, which would evict the records."""

_BATCH = 100
"""Records in a batch."""


def measure(stage: Stage, topics: int, partitions: int, records: int, rounds: int) -> Iterator[Row]:
    """Measure both, alternately.

    Args:
        records: of each partition of the many.

    Raises:
        WrongAnswer: a comparison did not read all records, or found some missing.
    """
    total = topics * partitions * records
    many, few = [f"wide-{number:03d}" for number in range(topics)], ["narrow"]
    for cluster in stage.clusters:
        stage.tell(f"writing {total:,} records to {topics} x {partitions} partitions, and to four")
        _fill(stage, cluster, many, partitions, total)
        _fill(stage, cluster, few, PARTITIONS, total)
    links = {"many": link_over(*many), "four": link_over(*few)}
    config = stage.configured("wide", links)
    times: dict[str, list[float]] = {name: [] for name in links}
    for number in range(rounds):
        for name, taken in times.items():
            words = ("gap", "--link", name, "--scope", "full", "--engine", "direct")
            done = drctl(config, *words)
            counts = done.document["totals"]
            if (counts["read_from_source"], counts["read_from_target"]) != (total, total):
                raise WrongAnswer(f"not {total} records were read: {counts}")
            taken.append(done.seconds)
            stage.tell(f"round {number + 1} of {rounds}, {name}: {done.seconds:.1f} s")
    what = f"drctl gap without Spark, {total:,} records a side"
    wide, narrow = tuple(times["many"]), tuple(times["four"])
    yield Row(PART, f"{what} in {PARTITIONS} partitions", narrow, records=2 * total)
    ratio = Ratio(median(wide) / median(narrow), "time of four partitions", Target(1.5))
    name = f"{what} in {topics * partitions:,} partitions"
    yield Row(PART, name, wide, records=2 * total, ratio=ratio)


def _fill(
    stage: Stage, cluster: LabCluster, topics: list[str], partitions: int, total: int
) -> None:
    """Write one partition after the other, so that batches are equally large everywhere."""
    create_topics(cluster, topics, partitions, _CREATE_S, _SMALL_INDEX)
    appender = Appender(cluster, {"batch.num.messages": str(_BATCH)})
    share = -(-total // (len(topics) * partitions))
    for first, messages in chunks(total, stage.start_ms):
        by_topic: dict[str, list[Message]] = defaultdict(list)
        for number, message in enumerate(messages, first):
            topic, partition = divmod(number // share, partitions)
            by_topic[topics[topic]].append(message._replace(partition=partition))
        for name, some in by_topic.items():
            appender.append(name, some)
    appender.finish()
