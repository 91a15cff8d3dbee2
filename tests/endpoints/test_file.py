"""An endpoint file: replaced atomically, and restored."""

import errno
import hashlib
import os
import stat
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from drctl.config.loading import read
from drctl.endpoints import file as file_replacement
from drctl.model.endpoints import EndpointMoved, EndpointRejected
from drctl.model.errors import ConfigError, Unknown
from drctl.model.typed_json import to_json
from tests.endpoints.configured_endpoints import BOOTSTRAPS, Endpoint, endpoint

FOREIGN = b"sasl.password=planted\nbootstrap.servers=elsewhere:9092\n"


def opened(folder: Path, **more: Any) -> Endpoint:
    return endpoint({"kind": "file", "path": "bootstrap", **more}, folder)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bootstrap"
    path.write_text(f"{BOOTSTRAPS['primary']}\n")
    return path


def test_switch_and_restore(file: Path) -> None:
    file.chmod(0o640)
    both = opened(file.parent)
    before = both.seen()
    assert (before.cluster, before.message) == ("primary", f"{file} points to primary")
    assert before.evidence == {
        "sha256": hashlib.sha256(b"p1:9092,p2:9092\n").hexdigest(),
        "mode": "0640",
        "owner": f"{os.getuid()}:{os.getgid()}",
        "content": "p1:9092,p2:9092\n",
    }
    both.writer.switch("secondary", before)
    assert file.read_text() == "s1:9092\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert both.seen().cluster == "secondary"
    both.writer.restore(before)
    assert both.seen() == before
    assert list(file.parent.iterdir()) == [file]


def test_content_is_restored_from_drctl_yaml_never_from_a_journal(file: Path) -> None:
    both = opened(file.parent)
    before = both.seen()
    both.writer.switch("secondary", before)
    evil = b"evil:9092\n"
    forged = {**before.evidence, "content": evil.decode()}
    both.writer.restore(replace(before, evidence=forged))
    assert both.seen() == before
    both.writer.switch("secondary", before)
    forged["sha256"] = hashlib.sha256(evil).hexdigest()
    with pytest.raises(EndpointRejected, match="had the content for primary"):
        both.writer.restore(replace(before, evidence=forged))
    assert both.seen().cluster == "secondary"


def test_custom_content_and_bootstraps(file: Path) -> None:
    content = 'to = "{bootstrap}" # {cluster}, {not me}\n'
    both = opened(file.parent, content=content, clusters={"primary": "public:1"})
    both.writer.switch("primary", both.seen())
    assert file.read_text() == 'to = "public:1" # primary, {not me}\n'
    both.writer.switch("secondary", both.seen())
    assert file.read_text() == 'to = "s1:9092" # secondary, {not me}\n'


def test_a_repeated_switch_changes_nothing(file: Path) -> None:
    both = opened(file.parent)
    before = both.seen()
    both.writer.switch("secondary", before)
    inode = file.stat().st_ino
    both.writer.switch("secondary", before)
    assert file.stat().st_ino == inode
    both.writer.restore(before)
    inode = file.stat().st_ino
    both.writer.restore(before)
    assert file.stat().st_ino == inode


def test_a_missing_value_is_restored_as_missing(tmp_path: Path) -> None:
    both = opened(tmp_path)
    before = both.seen()
    assert (before.cluster, before.message) == (None, f"{tmp_path / 'bootstrap'} does not exist")
    both.writer.switch("secondary", before)
    assert (tmp_path / "bootstrap").read_text() == "s1:9092\n"
    assert stat.S_IMODE((tmp_path / "bootstrap").stat().st_mode) == 0o644
    both.writer.restore(before)
    assert list(tmp_path.iterdir()) == []
    both.writer.restore(before)


def test_foreign_content_is_kept_out_of_journals_and_restored(file: Path) -> None:
    file.write_bytes(FOREIGN)
    file.chmod(0o604)
    both = opened(file.parent)
    before = both.seen()
    assert before.cluster is None
    assert before.message.endswith(
        "does not have the content of any cluster in drctl.yaml (55 bytes)"
    )
    assert "planted" not in str(to_json(before))
    inode = file.stat().st_ino
    for _ in range(2):
        both.writer.switch("secondary", before)
        assert file.read_text() == "s1:9092\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o604
        both.writer.restore(before)
        assert file.read_bytes() == FOREIGN
        assert file.stat().st_ino == inode
    assert list(file.parent.iterdir()) == [file]


def test_saved_content_is_verified(file: Path) -> None:
    file.write_bytes(FOREIGN)
    both = opened(file.parent)
    before = both.seen()
    both.writer.switch("secondary", before)
    (kept,) = (path for path in file.parent.iterdir() if path != file)
    kept.write_bytes(b"another")
    with pytest.raises(EndpointRejected, match="is missing or was changed") as caught:
        both.writer.restore(before)
    assert "by hand" in caught.value.hint
    kept.unlink()
    with pytest.raises(EndpointRejected, match="is missing or was changed"):
        both.writer.restore(before)
    assert file.read_text() == "s1:9092\n"


def test_a_stale_temporary_file_does_no_harm(file: Path) -> None:
    file.write_bytes(FOREIGN)
    both = opened(file.parent)
    before = both.seen()
    digest = before.evidence["sha256"][:12]
    (file.parent / f".bootstrap.before-drctl-{digest}").write_bytes(b"stale")
    (file.parent / ".bootstrap.new-drctl").write_bytes(b"left by a crash")
    both.writer.switch("secondary", before)
    both.writer.restore(before)
    assert file.read_bytes() == FOREIGN


def test_changes_by_others_are_kept(file: Path) -> None:
    both = opened(file.parent)
    before = both.seen()
    file.write_bytes(FOREIGN)
    for call in (partial(both.writer.switch, "secondary"), both.writer.restore):
        with pytest.raises(EndpointMoved) as caught:
            call(before)
        assert caught.value.hint
    assert file.read_bytes() == FOREIGN
    file.unlink()
    with pytest.raises(EndpointMoved):
        both.writer.switch("secondary", before)
    assert not file.exists()


def test_a_symbolic_link_is_kept(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("bootstrap")
    both = opened(tmp_path, path="link")
    before = both.seen()
    both.writer.switch("secondary", before)
    assert link.is_symlink()
    assert file.read_text() == "s1:9092\n"
    both.writer.restore(before)
    assert both.seen() == before


def test_no_partial_file_is_readable(file: Path) -> None:
    wanted = {f"{text}\n" for text in BOOTSTRAPS.values()}
    both = opened(file.parent)
    seen, done = set[str](), threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(file.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(30):
        both.writer.switch("secondary", both.seen())
        both.writer.switch("primary", both.seen())
    done.set()
    reader.join(10)
    assert seen <= wanted


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_the_owner_is_kept(file: Path) -> None:
    os.chown(file, 12345, 54321)
    file.chmod(0o2640)
    both = opened(file.parent)
    before = both.seen()
    assert before.evidence["owner"] == "12345:54321"
    both.writer.switch("secondary", before)
    status = file.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12345, 54321, 0o2640)
    both.writer.restore(before)
    assert both.seen() == before


def test_extended_attributes_are_kept(file: Path) -> None:
    try:
        os.setxattr(file, "user.origin", b"the site")
    except OSError:
        pytest.skip("this file system has none")
    both = opened(file.parent)
    both.writer.switch("secondary", both.seen())
    assert os.getxattr(file, "user.origin") == b"the site"


def test_an_owner_that_cannot_be_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a user who may write to another's folder; root always may."""

    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    real = os.fstat

    def another(handle: int) -> os.stat_result:
        return os.stat_result((*real(handle)[:4], 99999, *real(handle)[5:]))

    both = opened(file.parent)
    before = both.seen()
    monkeypatch.setattr(file_replacement.os, "fstat", another)
    monkeypatch.setattr(file_replacement.os, "fchown", refused)
    with pytest.raises(EndpointRejected, match="with the same owner and mode") as caught:
        both.writer.switch("secondary", before)
    assert "file's owner" in caught.value.hint
    monkeypatch.undo()
    assert both.seen() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_disk_that_fails_after_the_file_was_replaced(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def failing(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        real(handle)

    both = opened(file.parent)
    before = both.seen()
    monkeypatch.setattr(file_replacement.os, "fsync", failing)
    with pytest.raises(Unknown, match="may not survive a crash"):
        both.writer.switch("secondary", before)


def test_not_a_regular_file(tmp_path: Path) -> None:
    (tmp_path / "bootstrap").mkdir()
    with pytest.raises(EndpointRejected, match="is not a regular file"):
        opened(tmp_path).reader.observe()
    with pytest.raises(EndpointRejected, match="is not a folder"):
        opened(tmp_path, path="absent/bootstrap").reader.observe()
    (tmp_path / "plain").touch()
    with pytest.raises(EndpointRejected, match="cannot be read: Not a directory"):
        opened(tmp_path, path="plain/bootstrap").reader.observe()


def test_a_file_that_is_too_large(file: Path) -> None:
    file.write_bytes(b"x" * 1_000_001)
    with pytest.raises(EndpointRejected, match="is not a regular file"):
        opened(file.parent).reader.observe()


def test_a_secret_bootstrap_is_never_shown(tmp_path: Path) -> None:
    text = (
        "clusters: {a: {bootstrap: '${env:A}'}, b: {bootstrap: 'b:1'}}\n"
        "links: {m: {from: a, to: b, topics: [x], endpoints: [{kind: file, path: x}]}}\n"
    )
    with pytest.raises(ConfigError, match="clusters: is required for 'a'"):
        read(text, tmp_path / "drctl.yaml")
