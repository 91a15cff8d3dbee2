"""Possible settings of a lab, and its conditions before a start: nothing is started here."""

import json
import random
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from drctl.artifacts.jars import KAFKA, OLDER_KAFKAS, committed_sums, kafka_set
from drctl.lab.lab import Lab
from drctl.lab.parts import Parts
from drctl.lab.settings import CLUSTERS, LabSettings, changed_settings, default_root, keep_settings
from drctl.lab.starting import (
    PortTaken,
    TooLittleMemory,
    free_port_base,
    require_memory,
    require_ports,
)
from drctl.model.errors import ExitCode, Refused, UsageError


def test_the_identity_policy_cannot_replicate_both_ways() -> None:
    with pytest.raises(UsageError, match="endless loop") as caught:
        LabSettings(active_active=True)
    assert "--replication-policy default" in caught.value.hint
    assert LabSettings(active_active=True, policy="default").active_active


@pytest.mark.parametrize(
    "given", [{"brokers": 2}, {"workers": 4}, {"port_base": 80}, {"port_base": 65500}]
)
def test_numbers_out_of_range(given: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=str(next(iter(given.values())))):
        LabSettings(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["kafka", "secondary_kafka"])
@pytest.mark.parametrize("version", ["3.6.2", "4.3", "4.3.1-rc0", "../4.3.1", "10.x.0", ""])
def test_an_invalid_release_is_refused(option: str, version: str) -> None:
    if (option, version) == ("secondary_kafka", ""):
        assert LabSettings(secondary_kafka=version).release("secondary") == KAFKA
        return
    with pytest.raises(UsageError) as caught:
        LabSettings(**{option: version})  # type: ignore[arg-type]
    assert caught.value.message == f"invalid release --{option.replace('_', '-')} {version}"
    assert "from 3.7.0 on" in caught.value.hint


@pytest.mark.parametrize("version", ["3.7.0", "3.8.1", "4.0.0", "10.0.0"])
def test_any_other_release_is_accepted(version: str) -> None:
    assert LabSettings(kafka=version).release("secondary") == version


def test_the_secondary_has_the_release_of_the_primary_unless_stated() -> None:
    both, mixed = LabSettings(kafka="3.9.1"), LabSettings(kafka="3.7.2", secondary_kafka="4.3.1")
    assert [both.release(each) for each in CLUSTERS] == ["3.9.1", "3.9.1"]
    assert [mixed.release(each) for each in CLUSTERS] == ["3.7.2", "4.3.1"]


@pytest.mark.parametrize("release", [*OLDER_KAFKAS, KAFKA])
def test_every_release_has_committed_checksums_of_its_own_jars(release: str) -> None:
    for kind, jar in (("kafka", "kafka_2.13"), ("connect", "connect-runtime")):
        assert f"{jar}-{release}.jar" in committed_sums(kafka_set(kind, release))


def test_no_two_parts_share_a_port() -> None:
    settings = LabSettings(brokers=3, workers=3)
    ports = [worker.port for worker in Parts(Path("lab"), settings).workers] + [
        port(cluster, node)
        for cluster in ("primary", "secondary")
        for node in settings.nodes
        for port in (settings.broker_port, settings.controller_port)
    ]
    assert len(set(ports)) == len(ports) == 15
    assert {port // 100 for port in ports} == {190}


def test_given_options_change_the_defaults(tmp_path: Path) -> None:
    given = {"brokers": 3, "policy": None, "active_active": None}
    assert changed_settings(tmp_path, given) == LabSettings(brokers=3)
    keep_settings(tmp_path, LabSettings(brokers=3, policy="default"))
    again = changed_settings(tmp_path, {"active_active": True})
    assert again == LabSettings(brokers=3, policy="default", active_active=True)


def test_a_running_lab_is_not_reconfigured(tmp_path: Path) -> None:
    keep_settings(tmp_path / "lab", LabSettings())
    with pytest.raises(Refused, match="has brokers 1, not 3") as caught:
        Lab(tmp_path / "lab").up(LabSettings(brokers=3))
    assert "drctl lab down" in caught.value.hint


def test_a_description_of_another_drctl(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    lab.root.mkdir()
    (lab.root / "lab.json").write_text('{"wheels": 4}', encoding="utf-8")
    with pytest.raises(Refused, match="is not a lab of this version"):
        lab.up()
    assert lab.down() == 0
    assert not lab.root.exists()


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    lab = Lab(tmp_path)
    with pytest.raises(Refused, match=r"contains other files \(thesis\.txt\)"):
        lab.up()
    assert lab.down() == 0
    assert (tmp_path / "thesis.txt").read_text(encoding="utf-8") == "years of work"


def test_there_is_no_lab(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    assert lab.down() == 0
    with pytest.raises(Refused, match="there is no lab in") as caught:
        lab.start("primary")
    assert (caught.value.exit_code, caught.value.hint) == (
        ExitCode.REFUSED,
        "start one: drctl lab up",
    )


@pytest.mark.jvm
def test_a_taken_port_is_named_with_its_owner(tmp_path: Path) -> None:
    base = free_port_base(random.Random())
    lab = Lab(tmp_path / "lab")
    with socket.create_server(("127.0.0.1", base + 51)) as server:
        with pytest.raises(PortTaken) as caught:
            lab.up(LabSettings(port_base=base))
        assert server.getsockname()[1] == base + 51
    me = psutil.Process()
    assert f"port {base + 51} on 127.0.0.1 is in use by pid {me.pid} ({me.name()})" in (
        caught.value.message
    )
    assert "--port-base" in caught.value.hint
    assert not (lab.root / "lab.json").exists(), "a refused lab wrote its settings"


def test_ports_are_free_after_their_owner_ended() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortTaken):
            require_ports([port])
    require_ports([port])


def test_reserved_ports_are_not_given_to_others() -> None:
    first = free_port_base(random.Random(7))
    code = "import random; from drctl.lab.starting import free_port_base as free"
    other = [sys.executable, "-c", f"{code}; print(free(random.Random(7)))"]
    assert int(subprocess.check_output(other)) != first
    require_ports(range(first, first + 99))


def test_not_enough_memory_for_the_heaps() -> None:
    with pytest.raises(TooLittleMemory, match="3 lab components need about 30000") as caught:
        require_memory(LabSettings(heap_mb=10_000_000), 3)
    assert "--heap-mb" in caught.value.hint
    require_memory(LabSettings(heap_mb=1), 1)


def test_the_labs_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_root() == Path("/state/drctl/lab")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/jane")
    assert default_root() == Path("/home/jane/.local/state/drctl/lab")


def test_settings_are_readable_json(tmp_path: Path) -> None:
    keep_settings(tmp_path, LabSettings())
    assert json.loads((tmp_path / "lab.json").read_text(encoding="utf-8"))["brokers"] == 1


def test_the_help_states_the_default_release() -> None:
    from drctl.cli.lab import Kafka

    (option,) = Kafka.__metadata__
    assert option.show_default == LabSettings().kafka
