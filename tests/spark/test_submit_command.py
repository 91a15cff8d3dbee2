"""The command line and the files of a submission, for each kind of cluster."""

import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from drctl.model.errors import ConfigError
from drctl.spark.session import properties_text
from drctl.spark.submission import (
    DeployMode,
    SubmitSettings,
    installed_spark,
    shared_folder,
    write_command,
)
from drctl.spark.submit import fault_in

SECRET = "correct horse battery staple"
CLIENTS = {
    "primary": {"bootstrap.servers": "p:9092", "sasl.jaas.config": f'x password="{SECRET}";'},
    "secondary": {"bootstrap.servers": "s:9092", "ssl.keystore.key": f"-----\n{SECRET}\n-----"},
}
CLUSTER = DeployMode.CLUSTER


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "shared" / "drctl-1"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def settings(tmp_path: Path, job: Path) -> SubmitSettings:
    return SubmitSettings(
        master="spark://host:7077",
        home=installed_spark(),
        shared=job.parent,
        conf={"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.executor.memory": "3g"},
        jars=("/jars/a.jar", "hdfs://nn/b.jar"),
    )


def read(path: Path) -> dict[str, str]:
    """Return the properties as Java reads them, as far as needed here."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(line.replace("\\", "").split("=", 1) for line in lines)


def value(words: tuple[str, ...], option: str) -> str:
    return words[words.index(option) + 1]


def test_a_standalone_cluster(settings: SubmitSettings, job: Path, scratch: Path) -> None:
    words = write_command(settings, CLIENTS, job, scratch)
    assert words == (
        str(settings.home / "bin" / "spark-submit"),
        *("--master", "spark://host:7077", "--deploy-mode", "client", "--name", "drctl-gap"),
        *("--properties-file", str(scratch / "spark.properties"), "--load-spark-defaults"),
        *("--py-files", str(scratch / "drctl.zip"), "--jars", "/jars/a.jar,hdfs://nn/b.jar"),
        *(str(scratch / "drctl_gap.py"), str(job), str(scratch), "primary", "secondary"),
    )
    conf = read(scratch / "spark.properties")
    assert conf["spark.pyspark.driver.python"] == sys.executable
    assert "password" in conf["spark.redaction.regex"]
    assert not list(job.iterdir()), "secrets were written to the shared folder"


def test_yarn(settings: SubmitSettings, job: Path, scratch: Path) -> None:
    words = write_command(
        replace(settings, master="yarn", deploy_mode=CLUSTER), CLIENTS, job, scratch
    )
    assert value(words, "--deploy-mode") == "cluster"
    files = [str(scratch / f"{name}.properties") for name in CLIENTS]
    assert value(words, "--files") == ",".join(files)
    assert words[-4:] == (str(job), ".", "primary", "secondary")
    conf = read(scratch / "spark.properties")
    assert "spark.pyspark.driver.python" not in conf, (
        "this host's path of Python is not valid on YARN"
    )
    assert conf["spark.yarn.submit.waitAppCompletion"] == "true"
    assert conf["spark.yarn.maxAppAttempts"] == "1"


def test_yarn_with_the_driver_here(settings: SubmitSettings, job: Path, scratch: Path) -> None:
    words = write_command(replace(settings, master="yarn"), CLIENTS, job, scratch)
    assert "--files" not in words
    assert words[-3] == str(scratch)


def test_kubernetes(settings: SubmitSettings, job: Path, scratch: Path, tmp_path: Path) -> None:
    jar = tmp_path / "connector.jar"
    jar.write_bytes(b"jar")
    given = replace(
        settings,
        master="k8s://https://api:6443",
        deploy_mode=CLUSTER,
        secrets_path="/mnt/drctl",
        jars=(str(jar), "local:///opt/spark/more.jar"),
    )
    words = write_command(given, CLIENTS, job, scratch)
    app = f"local://{job}/app"
    assert value(words, "--py-files") == f"{app}/drctl.zip"
    assert value(words, "--jars") == f"{app}/connector.jar,local:///opt/spark/more.jar"
    assert words[-5:] == (f"{app}/drctl_gap.py", str(job), "/mnt/drctl", "primary", "secondary")
    assert "--files" not in words
    shared = {p.name: p.read_bytes() for p in job.rglob("*") if p.is_file()}
    assert shared.keys() == {"drctl.zip", "drctl_gap.py", "connector.jar"}
    assert not any(SECRET.encode() in content for content in shared.values())
    assert [p.name for p in scratch.iterdir()] == ["spark.properties"]
    assert read(scratch / "spark.properties")["spark.kubernetes.submission.waitAppCompletion"]


@pytest.mark.parametrize("mode", list(DeployMode))
def test_secrets_are_in_private_files_only(
    mode: DeployMode, settings: SubmitSettings, job: Path, scratch: Path
) -> None:
    words = write_command(replace(settings, master="yarn", deploy_mode=mode), CLIENTS, job, scratch)
    assert SECRET not in " ".join(words)
    assert "secret.key" not in " ".join(words)
    holding = {p for p in scratch.iterdir() if SECRET in p.read_text("latin-1").replace("\\", "")}
    names = {"spark.properties", "primary.properties", "secondary.properties"}
    assert {p.name for p in holding} == names
    assert {stat.S_IMODE(p.stat().st_mode) for p in holding} == {0o600}


def test_user_settings_take_precedence(settings: SubmitSettings, job: Path, scratch: Path) -> None:
    conf = {
        "spark.pyspark.driver.python": "/opt/python",
        "spark.sql.shuffle.partitions": "7",
        "spark.yarn.submit.waitAppCompletion": "false",
    }
    write_command(replace(settings, conf=conf), CLIENTS, job, scratch)
    found = read(scratch / "spark.properties")
    assert found["spark.pyspark.driver.python"] == "/opt/python"
    assert found["spark.sql.shuffle.partitions"] == "7"
    assert found["spark.yarn.submit.waitAppCompletion"] == "true", (
        "spark-submit must wait, because drctl follows it"
    )
    for name in ("spark.master", "spark.local.dir", "spark.jars"):
        assert name not in found


@pytest.mark.parametrize(("mode", "shown"), [(CLUSTER, None), (DeployMode.CLIENT, "false")])
def test_spark_shows_its_page_on_the_cluster_only(
    mode: DeployMode, shown: str | None, settings: SubmitSettings, job: Path, scratch: Path
) -> None:
    given = replace(settings, master="yarn", deploy_mode=mode)
    write_command(given, CLIENTS, job, scratch)
    assert read(scratch / "spark.properties").get("spark.ui.enabled") == shown


def test_an_older_spark_is_not_asked_for_its_defaults(
    settings: SubmitSettings, job: Path, scratch: Path, tmp_path: Path
) -> None:
    home = tmp_path / "spark-3.5"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark-core_2.13-3.5.7.jar").touch()
    words = write_command(replace(settings, home=home), CLIENTS, job, scratch)
    assert "--load-spark-defaults" not in words
    assert words[0] == str(home / "bin" / "spark-submit")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"deploy_mode": CLUSTER}, "client mode only"),
        ({"deploy_mode": CLUSTER, "master": "local[2]"}, "client mode only"),
        ({"deploy_mode": CLUSTER, "master": "k8s://https://api:6443"}, "secrets_path"),
        ({"home": Path("/no/such/spark")}, "bin/spark-submit not found in /no/such/spark"),
        ({"jars": ("/no/such.jar",)}, "file /no/such.jar not found"),
        ({"shared": Path("/no/such/folder")}, "/no/such/folder is not a directory"),
    ],
)
def test_conflicting_settings(
    changes: dict[str, object], message: str, settings: SubmitSettings
) -> None:
    settings = replace(settings, jars=("hdfs://nn/b.jar",))
    settings.check()
    with pytest.raises(ConfigError, match=message) as caught:
        replace(settings, **changes).check()  # type: ignore[arg-type]
    assert caught.value.hint


def test_the_shared_folder(tmp_path: Path) -> None:
    base, work = tmp_path / "base", tmp_path / "work"
    assert shared_folder(None, "local[*]", base, work) == work
    assert shared_folder("here", "yarn", base, work) == base / "here"
    assert shared_folder("/mnt/there", "local[*]", base, work) == Path("/mnt/there")
    with pytest.raises(ConfigError, match=r"needs spark\.shared"):
        shared_folder(None, "spark://host:7077", base, work)
    for named in ("hdfs://nn/drctl", "s3a://bucket/drctl", "file:/mnt/there"):
        with pytest.raises(ConfigError, match="must be a directory"):
            shared_folder(named, "yarn", base, work)


def test_nothing_in_a_property_can_become_another(tmp_path: Path) -> None:
    text = properties_text({"a b": " x\ny=1", "#c": "\t!d\\", "e:f": "ä\r"})
    assert text.splitlines() == ["a\\ b=\\ x\\ny\\=1", "\\#c=\\t\\!d\\\\", "e\\:f=ä\\r"]


@pytest.mark.parametrize(
    ("printed", "cause"),
    [
        ("Error: Failed to load class x.\n26/01/02 INFO ShutdownHookManager: bye", "Failed to"),
        (
            "py4j.protocol.Py4JJavaError: An error occurred while calling o1.\n"
            ": org.apache.spark.SparkException: no\n\tat x.y.Z(Z.java)\n"
            "Caused by: java.net.UnknownHostException: nowhere\n\tat java.net.Foo.java",
            "UnknownHostException: nowhere",
        ),
        (
            'Exception in thread "main" org.apache.spark.SparkException: When running with master'
            " 'yarn' either HADOOP_CONF_DIR or YARN_CONF_DIR must be set\n\tat org.Foo",
            "SparkException: When running",
        ),
        (
            "Invalid maximum heap size: -Xmxlots\n"
            "Error: Could not create the Java Virtual Machine.\n"
            "Error: A fatal exception has occurred. Program will exit.",
            "Invalid maximum heap size: -Xmxlots",
        ),
        ("26/01/02 INFO SparkContext: Running\n", ""),
        ("", ""),
    ],
)
def test_the_cause_in_a_log(printed: str, cause: str) -> None:
    found = fault_in(printed)
    assert found.startswith(cause)
    assert bool(found) == bool(cause)
