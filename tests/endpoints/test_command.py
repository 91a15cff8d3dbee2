"""User-supplied commands: no shell, no inherited environment, a timeout; failed is not unknown."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from drctl.endpoints import command
from drctl.lab.waiting import Patience
from drctl.model.endpoints import EndpointFailed, EndpointMoved, EndpointRejected
from drctl.model.errors import ConfigError, ExitCode, Unknown, Unreachable
from drctl.model.typed_json import to_json
from tests.endpoints.configured_endpoints import Endpoint, endpoint

SWITCH = '#!/bin/sh\nprintf "%s\\n" "$@" >>calls\nprintf "%s\\n" "$1" >now\n'
OBSERVE = "#!/bin/sh\ncat now\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    script(tmp_path, "switch", SWITCH)
    script(tmp_path, "observe", OBSERVE)
    (tmp_path / "now").write_text("primary\n")
    (tmp_path / "calls").touch()
    return tmp_path


def script(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)


def opened(folder: Path, environ: dict[str, str] | None = None, **more: Any) -> Endpoint:
    given = {
        "kind": "command",
        "argv": ["./switch", "{cluster}"],
        "observe": "./observe",
        "timeout_s": 20,
        **more,
    }
    return endpoint(given, folder, environ)


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_switch_and_restore(folder: Path) -> None:
    both = opened(folder)
    before = both.seen()
    assert (before.cluster, before.message) == ("primary", "./observe answers 'primary'")
    assert before.evidence == {"answer": "primary", "code": 0}
    both.writer.switch("secondary", before)
    both.writer.switch("secondary", before)
    assert both.seen().cluster == "secondary"
    both.writer.restore(before)
    both.writer.restore(before)
    assert both.seen() == before
    assert calls(folder) == ["secondary", "primary"]


def test_no_shell_touches_the_arguments(folder: Path) -> None:
    odd = ["$(touch shell)", "a b", "--to={cluster}", "; touch shell", "*", "{cluster"]
    both = opened(folder, argv=["./switch", "{cluster}", *odd])
    both.writer.switch("secondary", both.seen())
    assert calls(folder) == ["secondary", *odd[:2], "--to=secondary", *odd[3:]]
    assert not (folder / "shell").exists()


def test_only_the_given_environment_is_set(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "x")
    script(folder, "switch", "#!/bin/sh\nexec /usr/bin/env >environment\n")
    env = {"TOKEN": "a ${env:TOKEN}", "REGION": "eu"}
    both = opened(folder, {"TOKEN": "planted", "OURS": "x"}, env=env)
    both.writer.switch("secondary", both.seen())
    lines = set((folder / "environment").read_text().splitlines())
    # A shell adds these of its own.
    lines = {
        line for line in lines if line.partition("=")[0] not in ("PWD", "SHLVL", "_", "OLDPWD")
    }
    assert lines == {"TOKEN=a planted", "REGION=eu"}


def test_secrets_that_a_command_prints_are_not_shown(folder: Path) -> None:
    script(folder, "observe", '#!/bin/sh\necho "at $TOKEN"\n')
    script(folder, "switch", '#!/bin/sh\necho "no: $TOKEN is wrong" >&2\nexit 3\n')
    both = opened(folder, {"TOKEN": "planted"}, env={"TOKEN": "${env:TOKEN}"})
    before = both.seen()
    assert before.evidence["answer"] == "at ***"
    with pytest.raises(EndpointFailed) as caught:
        both.writer.switch("secondary", before)
    assert "planted" not in str(to_json(before)) + caught.value.message + caught.value.hint
    with pytest.raises(ConfigError, match="TOKEN is not set"):
        opened(folder, {}, env={"TOKEN": "${env:TOKEN}"})


def test_an_answer_that_is_not_a_cluster(folder: Path) -> None:
    (folder / "now").write_text("primary and more\n")
    state = opened(folder).seen()
    assert state.cluster is None
    assert state.message == (
        "./observe answers 'primary and more', which is not one of primary, secondary"
    )


def test_failed(folder: Path) -> None:
    script(folder, "switch", "#!/bin/sh\necho on the way\necho 'no such host' >&2\nexit 7\n")
    both = opened(folder)
    with pytest.raises(EndpointFailed) as caught:
        both.writer.switch("secondary", both.seen())
    assert caught.value.message == (
        "./switch secondary failed, and may have changed something: exit code 7: no such host"
    )
    assert "./observe" in caught.value.hint
    assert caught.value.exit_code is ExitCode.STOPPED
    script(folder, "switch", "#!/bin/sh\nkill -9 $$\n")
    with pytest.raises(EndpointFailed, match="killed by signal 9"):
        both.writer.switch("secondary", both.seen())


def test_a_command_that_times_out(folder: Path) -> None:
    script(folder, "observe", "#!/bin/sh\nexec sleep 600\n")
    with pytest.raises(Unreachable, match=r"did not answer within 0\.3 s") as caught:
        opened(folder, timeout_s=0.3).reader.observe()
    assert "timeout_s" in caught.value.hint


def over_after(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the timeout expire as soon as this file is written."""
    real = subprocess.Popen.wait

    def wait(process: "subprocess.Popen[bytes]", timeout: float | None = None) -> int:
        ready = Patience.of(20).wait_until(lambda: file.exists() or process.poll() is not None)
        assert ready
        if file.exists() and process.poll() is None and timeout == 20:
            raise subprocess.TimeoutExpired(process.args, timeout)
        return real(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", wait)


def test_a_timeout_kills_all_child_processes_and_is_unknown(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(folder, "switch", "#!/bin/sh\nsleep 600 &\necho $$ $! >new\nmv new pids\nwait\n")
    both = opened(folder)
    before = both.seen()
    over_after(folder / "pids", monkeypatch)
    with pytest.raises(Unknown, match="did not end within 20 s") as caught:
        both.writer.switch("secondary", before)
    assert not isinstance(caught.value, Unreachable)
    assert caught.value.exit_code is ExitCode.UNKNOWN
    pids = [int(pid) for pid in (folder / "pids").read_text().split()]
    assert len(pids) == 2
    assert Patience.of(10).wait_until(lambda: not any(map(alive, pids)))


def test_processes_that_ignore_sigterm_are_killed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ("trap '' TERM", "echo $$ >new", "mv new pid", "while :; do sleep 1; done")
    script(folder, "observe", "\n".join(("#!/bin/sh", *lines)))
    monkeypatch.setattr(command, "_GRACE_S", 0.2)
    over_after(folder / "pid", monkeypatch)
    with pytest.raises(Unreachable):
        opened(folder).reader.observe()
    pid = int((folder / "pid").read_text())
    assert Patience.of(10).wait_until(lambda: not alive(pid))


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_background_processes_are_not_awaited(folder: Path) -> None:
    """The background process keeps the output open."""
    script(folder, "observe", "#!/bin/sh\nsleep 600 &\necho $! >pid\necho secondary\n")
    assert opened(folder).seen().cluster == "secondary"
    pid = int((folder / "pid").read_text())
    assert alive(pid)
    os.kill(pid, signal.SIGKILL)


def test_interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(folder, "observe", "#!/bin/sh\necho $$ >new\nmv new pid\nexec sleep 600\n")

    def interrupted(_process: object, _timeout: float | None = None) -> int:
        monkeypatch.undo()
        started = Patience.of(20).wait_until((folder / "pid").exists)
        assert started
        raise KeyboardInterrupt

    both = opened(folder)
    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        both.reader.observe()
    assert not alive(int((folder / "pid").read_text()))


def test_observe_fails(folder: Path) -> None:
    script(folder, "observe", "#!/bin/sh\necho primary\nexit 1\n")
    both = opened(folder)
    with pytest.raises(Unknown, match="does not report where clients are sent: exit code 1"):
        both.reader.observe()


@pytest.mark.parametrize("wrong", ["./absent", "absent-command", "./now"])
def test_cannot_be_started(folder: Path, wrong: str) -> None:
    with pytest.raises(EndpointRejected, match=f"{wrong} cannot be started") as caught:
        opened(folder, observe=[wrong]).reader.observe()
    assert "PATH" in caught.value.hint
    both = opened(folder, argv=[wrong, "{cluster}"])
    with pytest.raises(EndpointRejected):
        both.writer.switch("secondary", both.seen())
    assert calls(folder) == []


def test_changes_by_others_are_kept(folder: Path) -> None:
    both = opened(folder)
    before = both.seen()
    (folder / "now").write_text("elsewhere\n")
    with pytest.raises(EndpointMoved, match="elsewhere") as caught:
        both.writer.switch("secondary", before)
    assert caught.value.hint
    assert calls(folder) == []


def test_a_partial_change_is_restored(folder: Path) -> None:
    script(folder, "switch", SWITCH + '[ "$1" = primary ] || { echo half >now; exit 1; }\n')
    both = opened(folder)
    before = both.seen()
    with pytest.raises(EndpointFailed):
        both.writer.switch("secondary", before)
    assert both.seen().cluster is None
    both.writer.restore(before)
    assert both.seen() == before


def test_an_unknown_state_cannot_be_restored(folder: Path) -> None:
    (folder / "now").write_text("elsewhere\n")
    both = opened(folder)
    before = both.seen()
    both.writer.switch("secondary", before)
    with pytest.raises(EndpointRejected, match=r"no known state to restore: .*elsewhere"):
        both.writer.restore(before)
    assert both.seen().cluster == "secondary"
