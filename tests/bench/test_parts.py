"""The calculations of the benchmark's parts, without a broker."""

import subprocess
import sys

import pytest

from bench import dump, options, rereads
from bench.crowd import Crowd, Log, World, copied, drawn_positions
from bench.memory import _ratio
from bench.process import WrongAnswer
from bench.records import chunks
from bench.watching import high_water, traffic, watched
from drctl.formats.consumer_timestamps import GroupPartition, decode_key, decode_value
from drctl.model.topology import TopicPartition

PLACE = TopicPartition("orders", 0)
MEGABYTE = 2**20


def world(crowd: Crowd) -> World:
    logs: dict[TopicPartition, Log] = {}
    for topic in crowd.names:
        for first, messages in chunks(crowd.records, 0, partitions=crowd.partitions):
            for _ in copied(topic, first, messages, crowd, logs):
                pass
    return World(crowd, logs, drawn_positions(crowd, logs))


@pytest.mark.parametrize("whole", [True, False])
def test_the_first_records_are_missing_unless_the_mirror_is_complete(whole: bool) -> None:
    crowd = Crowd("moved", 12, 2, 4, 4_000, whole)
    made = world(crowd)
    skipped = sum(log.skipped for log in made.logs.values())
    assert skipped == (0 if whole else 2 * 4_000 // 20)
    assert sum(len(log.times) for log in made.logs.values()) == 8_000
    assert len(list(made.places)) == 12 * 4
    assert all(
        made.logs[place].skipped < offset <= len(made.logs[place].times)
        for _, place, offset in made.places
    )


def test_records_read_again_are_summed_and_skipped_ones_rejected() -> None:
    made = World(Crowd("g", 1, 1, 1, 10), {PLACE: Log([0] * 10, 2)}, {"g": {PLACE: 8}})
    assert made.read_again({"g": {PLACE: 6}}) == 0
    assert made.read_again({"g": {PLACE: 1}}) == 5
    with pytest.raises(WrongAnswer):
        made.read_again({"g": {PLACE: 7}})
    with pytest.raises(WrongAnswer):
        made.read_again({"g": {}})


def test_positions_of_a_translation() -> None:
    rows = [
        {"group": "g", "target_topic": "orders", "partition": 0, "target_offset": 7},
        {"group": "g", "target_topic": "orders", "partition": 1, "target_offset": None},
    ]
    assert rereads.positions_of({"rows": rows}) == {"g": {PLACE: 7}}


@pytest.mark.parametrize(("keys", "distinct"), [(8, 8), (100, 20)])
def test_timestamps_alternate_within_their_partition(keys: int, distinct: int) -> None:
    found = dump.messages(keys, range(20), 1_000)
    assert len({m.key for m in found}) == distinct
    assert len({(m.key, m.partition) for m in found}) == distinct
    assert decode_key(found[1].key) == GroupPartition("orders-app-0000000", "orders", 1)
    stamps = [decode_value(m.value) for m in found]
    assert [s.timestamp_ms for s in stamps if s] == list(range(1_000, 1_020))


@pytest.mark.slow
def test_lines_are_counted_and_the_last_is_returned() -> None:
    program = "for n in range(300_000): print('x' * 10, n)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert dump._counted(process) == (300_000, b"x" * 10 + b" 299999")
        assert process.wait(30) == 0


def test_the_memory_peak_of_a_process_is_measured() -> None:
    program = "held = bytearray(80 << 20); del held; print(flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with watched(process.pid) as peak:
        assert process.stdout
        process.stdout.readline()
        peak.look()
        process.communicate(b"\n", timeout=30)
    assert 80 * MEGABYTE < peak.bytes < 200 * MEGABYTE
    assert high_water(process.pid) == 0


def test_the_loopback_counts_upwards() -> None:
    before = traffic()
    assert traffic() >= before > 0


def test_memory_is_compared_with_the_size_before_the_last() -> None:
    peaks = {1: 50.0, 4: 100.0, 16: 110.0, 30: 130.0}
    found = {size: _ratio(peaks, (1, 4, 16), size) for size in peaks}
    assert found[1] is None
    assert found[4] is None
    assert [(r.value, r.reached) for s in (16, 30) if (r := found[s])] == [
        (pytest.approx(1.1), True),
        (pytest.approx(1.3), False),
    ]


def test_each_part_can_be_run_alone() -> None:
    for part in options.PARTS:
        assert options.parse(["--only", part]).parts == (part,)
    every = options.parse([])
    assert every.parts == options.PARTS
    assert (every.offsets.groups, every.offsets.checkpoints) == (1_000, 5_000_000)
    assert (every.dump_sizes, every.memory_most) == ((1_000_000, 5_000_000), 0)
    assert options.parse(["--full"]).memory_most == 30_000_000
