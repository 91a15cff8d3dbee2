"""Downloads with the real Ivy: from a Maven repository on this host, and from none."""

import hashlib
import multiprocessing
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drctl.artifacts import jars as resolution
from drctl.artifacts.jars import (
    OLDER_KAFKAS,
    SETS,
    ArtifactSet,
    CorruptArtifact,
    Module,
    NotFetched,
    artifact_set,
    committed_sums,
    resolve,
)
from drctl.artifacts.java import JavaMissing, find_java
from drctl.model.errors import ConfigError, ExitCode

pytestmark = pytest.mark.jvm

POM = """<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>
<artifactId>{name}</artifactId><version>1.0</version>{more}</project>"""
NEEDS = """<dependencies><dependency><groupId>org.example</groupId>
<artifactId>{name}</artifactId><version>1.0</version></dependency></dependencies>"""
SETTINGS = """<ivysettings><settings defaultResolver="here"/><resolvers>
<ibiblio name="here" m2compatible="true" usepoms="true" root="{root}"/></resolvers></ivysettings>"""


def silent(_message: str) -> None: ...


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A Maven repository with two modules; the first requires the second."""
    root = tmp_path / "repository"
    for name, more in (("first", NEEDS.format(name="second")), ("second", "")):
        folder = root / "org" / "example" / name / "1.0"
        folder.mkdir(parents=True)
        pom = POM.format(name=name, more=more)
        (folder / f"{name}-1.0.pom").write_text(pom, encoding="utf-8")
        with zipfile.ZipFile(folder / f"{name}-1.0.jar", "w") as jar:
            jar.writestr("name", name)
    return root


@pytest.fixture
def other_release(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository with Kafka 9.8.7, for which drctl has no checksums."""
    monkeypatch.setenv("DRCTL_CACHE", str(tmp_path / "cache"))
    for module in artifact_set("kafka-9.8.7").modules:
        folder = repository.joinpath(*module.organisation.split("."), module.name, module.revision)
        folder.mkdir(parents=True)
        file = f"{module.name}-{module.revision}"
        pom = POM.format(name=module.name, more="").replace("1.0<", f"{module.revision}<")
        pom = pom.replace("org.example", module.organisation)
        (folder / f"{file}.pom").write_text(pom, encoding="utf-8")
        with zipfile.ZipFile(folder / f"{file}.jar", "w") as jar:
            jar.writestr("name", module.name)
    return repository


@pytest.fixture
def settings(tmp_path: Path, repository: Path) -> Path:
    path = tmp_path / "settings.xml"
    path.write_text(SETTINGS.format(root=repository.as_uri()), encoding="utf-8")
    return path


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    """Ivy settings of a repository that does not respond: port 1."""
    path = tmp_path / "nowhere.xml"
    path.write_text(SETTINGS.format(root="http://127.0.0.1:1/"), encoding="utf-8")
    return path


@pytest.fixture
def example(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """A set `example` of the repository; calling it records the checksums again."""
    monkeypatch.setenv("DRCTL_CACHE", str(tmp_path / "cache"))
    wanted = ArtifactSet("example", (Module("org.example", "first", "1.0"),))
    monkeypatch.setattr(resolution, "SETS", {"example": wanted})
    sums_file = tmp_path / "example.sha256"
    monkeypatch.setattr(resolution, "sums_file", lambda _name: sums_file)

    def commit() -> None:
        jars = sorted(repository.rglob("*.jar"))
        sums = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars}
        sums_file.write_text(str(sums), encoding="ascii")
        monkeypatch.setattr(resolution, "committed_sums", lambda _name: sums)

    commit()
    return commit


def test_fetches_once(example: Callable[[], None], settings: Path, repository: Path) -> None:
    messages: list[str] = []
    paths = resolve("example", progress=messages.append, ivy_settings=settings)
    assert [path.name for path in paths] == ["first-1.0.jar", "second-1.0.jar"]
    assert all(path.is_file() for path in paths)
    assert "fetched first 1.0" in messages
    shutil.rmtree(repository)
    again: list[str] = []
    assert resolve("example", progress=again.append, ivy_settings=settings) == paths
    assert again == []


def test_settings_can_come_from_the_environment(
    example: Callable[[], None], settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRCTL_IVY_SETTINGS", str(settings))
    assert len(resolve("example", progress=silent)) == 2


def test_settings_that_do_not_exist(example: Callable[[], None], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.xml does not exist"):
        resolve("example", progress=silent, ivy_settings=tmp_path / "absent.xml")


def test_nothing_cached_and_no_network(example: Callable[[], None], nowhere: Path) -> None:
    with pytest.raises(NotFetched) as caught:
        resolve("example", progress=silent, ivy_settings=nowhere)
    error = caught.value
    assert error.exit_code is ExitCode.UNKNOWN
    assert "the example jars (org.example:first:1.0 and others) are not cached" in error.message
    assert "--ivy-settings" in error.hint


def test_a_jar_with_another_checksum_is_not_kept(
    example: Callable[[], None], settings: Path, repository: Path
) -> None:
    (jar,) = repository.rglob("second-1.0.jar")
    good = jar.read_bytes()
    jar.write_bytes(good + b"tampered with")
    with pytest.raises(CorruptArtifact, match=r"second-1\.0\.jar is corrupt"):
        resolve("example", progress=silent, ivy_settings=settings)
    jar.write_bytes(good)
    assert len(resolve("example", progress=silent, ivy_settings=settings)) == 2


def test_an_unexpected_dependency(
    example: Callable[[], None], settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fewer = {"first-1.0.jar": _sum(settings.parent, "first-1.0.jar")}
    monkeypatch.setattr(resolution, "committed_sums", lambda _name: fewer)
    with pytest.raises(CorruptArtifact, match=r"second-1\.0\.jar is not one of the example jars"):
        resolve("example", progress=silent, ivy_settings=settings)


def test_other_releases_are_verified_from_the_second_start_on(
    other_release: Path, settings: Path
) -> None:
    messages: list[str] = []
    paths = resolve("kafka-9.8.7", progress=messages.append, ivy_settings=settings)
    broker = paths[0]
    assert broker.name == "kafka_2.13-9.8.7.jar"
    assert len(paths) == 2
    assert [line for line in messages if "drctl has no checksums of the kafka-9.8.7 jars" in line]
    again: list[str] = []
    assert resolve("kafka-9.8.7", progress=again.append, ivy_settings=settings) == paths
    assert again == []
    good = broker.read_bytes()
    broker.write_bytes(good + b"tampered with")
    with pytest.raises(CorruptArtifact, match=r"kafka_2\.13-9\.8\.7\.jar is corrupt"):
        resolve("kafka-9.8.7", progress=silent, ivy_settings=settings)
    broker.unlink()
    assert resolve("kafka-9.8.7", progress=silent, ivy_settings=settings) == paths
    assert broker.read_bytes() == good


def test_a_release_that_the_repository_does_not_have(other_release: Path, settings: Path) -> None:
    with pytest.raises(NotFetched, match=r"org\.apache\.kafka:kafka_2\.13:9\.8\.8"):
        resolve("kafka-9.8.8", progress=silent, ivy_settings=settings)


def _sum(folder: Path, jar: str) -> str:
    (path,) = folder.rglob(jar)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_deleted_jar_is_fetched_again(example: Callable[[], None], settings: Path) -> None:
    first, second = resolve("example", progress=silent, ivy_settings=settings)
    second.write_bytes(b"spoilt")
    with pytest.raises(CorruptArtifact, match="is corrupt"):
        resolve("example", progress=silent, ivy_settings=settings)
    second.unlink()
    assert resolve("example", progress=silent, ivy_settings=settings) == (first, second)


def _resolve_and_send(settings: Path, results: "multiprocessing.Queue[object]") -> None:
    results.put(resolve("example", progress=silent, ivy_settings=settings))


def test_two_processes_at_once(example: Callable[[], None], settings: Path) -> None:
    context = multiprocessing.get_context("fork")
    results: multiprocessing.Queue[object] = context.Queue()
    both = [context.Process(target=_resolve_and_send, args=(settings, results)) for _ in range(2)]
    for process in both:
        process.start()
    answers = [results.get(timeout=60) for _ in both]
    for process in both:
        process.join(60)
    assert answers[0] == answers[1]
    assert [process.exitcode for process in both] == [0, 0]


def set_names() -> Iterator[object]:
    """The sets of releases that only nightly tests start are only fetched then."""
    for name in SETS:
        nightly = name.endswith(OLDER_KAFKAS) and not name.endswith("-3.9.1")
        yield pytest.param(name, marks=[pytest.mark.nightly] if nightly else [])


@pytest.mark.parametrize("name", list(set_names()))
def test_the_real_sets_are_complete(name: str) -> None:
    paths = resolve(name, progress=silent)
    assert {path.name for path in paths} == set(committed_sums(name))
    assert all(path.is_file() for path in paths)


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match="no java command on the PATH") as caught:
        find_java()
    assert "apt-get install" in caught.value.hint


def test_old_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho '  java.specification.version = 1.8' >&2\n", encoding="ascii")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="is Java 8; Java 17 or later is needed"):
        find_java()
