"""What may be missing before records are read, or full when results are written."""

import subprocess
from pathlib import Path
from random import Random
from shutil import which
from typing import Any

import pytest

from tests.cluster.command import Drctl, Ended
from tests.cluster.filling import Clock, R, fill, holding
from tests.cluster.lab_link import SPARK, NewDrctl, NewHalf, link_over, new_prefix
from tests.kafka.tls_broker import free_ports
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def topic(half: NewHalf) -> str:
    """One record is not on the target."""
    return half(6, 5)


@pytest.fixture(scope="module")
def bulky(primary: ClusterUnderTest, secondary: ClusterUnderTest, clock: Clock) -> str:
    """18 MB of incompressible keys that are not on the target."""
    name = f"{new_prefix()}bulky"
    keys = Random(1)
    records = [R(keys.randbytes(900_000), b"v", n) for n in range(20)]
    fill(primary, {name: holding(*records)}, clock)
    fill(secondary, {name: holding()}, clock)
    return name


def link(topic: str) -> dict[str, object]:
    return {"main": link_over(topic)}


@pytest.fixture(scope="module")
def drctl(topic: str, new_drctl: NewDrctl) -> Drctl:
    return new_drctl(link(topic), spark=SPARK)


def failed(ended: Ended, code: int, *words: str) -> str:
    """Assert that message and hint contain these words: no traceback, no partial result."""
    assert ended.code == code, ended.stderr
    error = ended.document()["error"]
    assert error["code"] == code
    text = f"{error['message']} / {error['hint']}"
    for word in words:
        assert word in text
    assert error["hint"], "there is no hint"
    assert "Traceback" not in ended.stderr
    assert not (ended.out / "gap.json").exists()
    assert not (ended.out / "records").exists()
    assert not (ended.out / ".partial").exists()
    return text


def test_no_configuration(tmp_path: Path) -> None:
    ended = Drctl(tmp_path, tmp_path / "no-such.yaml").gap()
    assert ended.code == 2
    assert "configuration not found" in ended.document()["error"]["message"]
    assert not ended.out.exists()


def test_a_misspelled_topic(drctl: Drctl, topic: str) -> None:
    ended = drctl.gap("--topic", topic + "n", name="typing-error")
    failed(ended, 2, f"{topic}n", f"did you mean {topic!r}?")


def test_an_output_directory_that_is_in_use(drctl: Drctl, tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").touch()
    failed(drctl.gap(name="in-use", out=tmp_path), 3, "holiday.jpg", "--out")
    assert (tmp_path / "holiday.jpg").exists()


def test_no_java(drctl: Drctl, tmp_path: Path) -> None:
    for command in ("bash", "dirname", "env", "ps", "sh"):
        (tmp_path / command).symlink_to(which(command) or "")
    ended = drctl.gap(name="no-java", environ={"PATH": str(tmp_path), "JAVA_HOME": ""})
    failed(ended, 5, "Java 17")


def test_few_records_need_neither_java_nor_jars(
    topic: str, new_drctl: NewDrctl, tmp_path: Path
) -> None:
    environ = {"PATH": str(tmp_path), "JAVA_HOME": "", "DRCTL_CACHE": str(tmp_path / "cache")}
    ended = new_drctl(link(topic)).gap(environ=environ)
    assert ended.code == 1, ended.stderr
    assert ended.gap()["totals"]["unreplicated"] == 1
    assert not (tmp_path / "cache").exists()


def test_an_invalid_spark_master(topic: str, new_drctl: NewDrctl) -> None:
    drctl = new_drctl(link(topic), spark={"master": "sparc://somewhere"})
    failed(drctl.gap(), 5, "sparc://somewhere", "spark.master")


IVY = """<ivysettings><settings defaultResolver="maven"/><resolvers>
<ibiblio name="maven" m2compatible="true" usepoms="true" root="http://127.0.0.1:{port}/"/>
</resolvers></ivysettings>"""


def test_no_jars_and_no_network(drctl: Drctl, tmp_path: Path) -> None:
    settings = tmp_path / "ivy.xml"
    settings.write_text(IVY.format(port=free_ports(1)[0]), encoding="utf-8")
    environ = {"DRCTL_CACHE": str(tmp_path / "cache"), "DRCTL_IVY_SETTINGS": str(settings)}
    ended = drctl.gap(name="no-jars", environ=environ)
    failed(ended, 5, "spark-connector", "not cached", "DRCTL_IVY_SETTINGS", "spark.jars")


def small_disk(folder: Path, listing: Path) -> tuple[str, ...]:
    """Return a command that runs drctl so that its result does not fit into the folder.

    It also writes a list of the folder's files at the end.
    """
    after = f'"$@"; code=$?; ls -A "{folder}" > "{listing}"; exit $code'
    disk = f'mount -t tmpfs -o size=2m tmpfs "{folder}"'
    alone = ("unshare", "--user", "--map-root-user", "--mount")
    if subprocess.run([*alone, "sh", "-c", disk], capture_output=True, check=False).returncode == 0:
        return (*alone, "sh", "-c", f"{disk} && {{ {after}; }}", "sh")
    # Where nothing can be mounted (in containers), a file-size limit above the size of Spark's
    # jars.
    return ("prlimit", f"--fsize={12 << 20}", "sh", "-c", after, "sh")


ONE_FILE = {**SPARK, "conf": {"spark.sql.shuffle.partitions": "1"}}


@pytest.mark.parametrize(
    "sections",
    [
        pytest.param({}, id="direct"),
        pytest.param({"spark": ONE_FILE}, id="spark", marks=pytest.mark.nightly),
    ],
)
def test_a_full_disk(
    bulky: str, new_drctl: NewDrctl, tmp_path: Path, sections: dict[str, Any]
) -> None:
    out, listing = tmp_path / "out", tmp_path / "listing"
    out.mkdir()
    drctl = new_drctl(link(bulky), **sections)
    text = failed(drctl.gap(out=out, under=small_disk(out, listing)), 5, "--out")
    assert "No space left on device" in text or "File too large" in text
    assert "gap.json" not in listing.read_text(encoding="utf-8").split()


@pytest.mark.nightly
def test_a_spark_master_that_does_not_answer(topic: str, new_drctl: NewDrctl) -> None:
    """Spark takes a minute to report it."""
    master = f"spark://127.0.0.1:{free_ports(1)[0]}"
    ended = new_drctl(link(topic), spark={"master": master}).gap(name="nobody-there")
    failed(ended, 5, "Spark did not start on spark://127.0.0.1:", "spark.master")


def test_the_fixture_itself_is_valid(drctl: Drctl) -> None:
    """The other tests fail for the stated reasons: the same command works otherwise."""
    ended = drctl.gap(name="works")
    assert ended.code == 1, ended.stderr
    assert ended.gap()["totals"]["unreplicated"] == 1
