"""A real cluster of two nodes with every security protocol, which the lab does not have.

Node 1 is the controller and a broker with SASL_PLAINTEXT, SASL_SSL and mTLS listeners. Node 2
is a broker only, for tests that stop or kill a leader. Topics are auto-created, as
Kafka's default is, and nobody has used a group yet.
"""

import logging
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from drctl.artifacts.jars import resolve
from drctl.artifacts.java import find_java
from tests.endpoints.programs import wait_until_stopped
from tests.jvm import classes_of
from tests.kafka.certificates import make_authority

ADMIN = "admin"
PASSWORDS = {
    ADMIN: "admin-password",
    # All characters that are special in JAAS, in properties files or in a shell.
    "bob": "b\"o'b\\; $ {x} ä=,",
    "reader": "reader-password",
}
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
START_S = 60.0

_SMALL = ("-Xms64m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SERVER = """
node.id={node}
process.roles={roles}
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL
inter.broker.listener.name=SASL_PLAINTEXT
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.sasl_plaintext.plain.sasl.jaas.config={plain}
listener.name.sasl_ssl.plain.sasl.jaas.config={plain}
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config={scram}
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={scram}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:ANONYMOUS;User:CN=alice
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={truststore}
listener.name.ssl.ssl.client.auth=required
log.dirs={logs}
auto.create.topics.enable=true
num.partitions=1
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=4000
log.retention.ms=-1
"""


class TlsCluster:
    """Started by `start`, removed by `close`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        jars = resolve("kafka", progress=logging.getLogger("tests").info)
        self._java = [find_java(), *_SMALL, *classes_of(jars), "-cp", f"{jars[0].parent}/*"]
        self.authority = make_authority(folder / "tls", "ca")
        self.alice = self.authority.issue("alice")
        (self._controller, self._plain_1, self._plain_2, self._tls, self._mtls) = free_ports(5)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def plain(self) -> str:
        """SASL without TLS; both brokers."""
        return f"127.0.0.1:{self._plain_1},127.0.0.1:{self._plain_2}"

    @property
    def tls(self) -> str:
        """SASL with TLS; node 1."""
        return f"127.0.0.1:{self._tls}"

    @property
    def mtls(self) -> str:
        """TLS with client certificates; node 1."""
        return f"127.0.0.1:{self._mtls}"

    def properties(self, user: str = ADMIN, mechanism: str = "PLAIN") -> dict[str, str]:
        """librdkafka's for a user, without TLS."""
        return {
            "bootstrap.servers": self.plain,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
        }

    def tls_properties(self, user: str = ADMIN, mechanism: str = "PLAIN") -> dict[str, str]:
        """librdkafka's for a user, with TLS."""
        return {
            **self.properties(user, mechanism),
            "bootstrap.servers": self.tls,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority.certificate),
        }

    def mtls_properties(self) -> dict[str, str]:
        """librdkafka's for alice, who has a certificate and no password."""
        return {
            "bootstrap.servers": self.mtls,
            "security.protocol": "SSL",
            "ssl.ca.pem": self.authority.certificate.read_text(),
            "ssl.certificate.location": str(self.alice.chain),
            "ssl.key.location": str(self.alice.key),
        }

    def start(self) -> None:
        """Start both nodes, and wait until both answer."""
        for node in (1, 2):
            self._format(node)
            self.start_node(node)
        self.wait_for_brokers(2)

    def start_node(self, node: int) -> None:
        """Start a node, again if it was killed."""
        if node in self._processes:
            self._processes[node].wait(10)
        with (self._folder(node) / "log").open("ab") as log:
            self._processes[node] = subprocess.Popen(
                [*self._java, "kafka.Kafka", self._config(node)], stdout=log, stderr=log
            )

    def signal(self, node: int, number: signal.Signals) -> None:
        """Kill, pause or resume a node; a paused node does not answer."""
        self._processes[node].send_signal(number)
        if number == signal.SIGSTOP:
            wait_until_stopped(self._processes[node].pid)

    def wait_for_brokers(self, count: int) -> None:
        """Wait until that many brokers are registered."""
        admin = AdminClient(self.properties(), logger=logging.getLogger("tests.kafka"))

        def registered() -> bool:
            try:
                return len(admin.list_topics(timeout=1).brokers) == count
            except KafkaException:
                return False

        wait_until(registered, f"{count} brokers; logs are in {self.folder}")

    def close(self) -> None:
        """End all processes."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait(10)

    def _format(self, node: int) -> None:
        folder = self._folder(node)
        folder.mkdir()
        config = self._config(node)
        config.touch(mode=0o600)
        config.write_text(self._server(node), encoding="latin-1")
        scram = f"SCRAM-SHA-512=[name={ADMIN},password={PASSWORDS[ADMIN]}]"
        tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", config]
        subprocess.run([*self._java, *tool, "--add-scram", scram], check=True, capture_output=True)

    def _server(self, node: int) -> str:
        broker = self.authority.issue(f"broker{node}")
        keystore = self._folder(node) / "keystore.pem"
        keystore.touch(mode=0o600)
        keystore.write_text(broker.key.read_text() + broker.chain.read_text())
        ports = {"SASL_PLAINTEXT": self._plain_1, "SASL_SSL": self._tls, "SSL": self._mtls}
        if node == 2:
            ports = {"SASL_PLAINTEXT": self._plain_2}
        addresses = [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
        listening = [*addresses, f"CONTROLLER://127.0.0.1:{self._controller}"][
            : 4 if node == 1 else 1
        ]
        text = _SERVER.format(
            node=node,
            roles="broker,controller" if node == 1 else "broker",
            controller=self._controller,
            plain=_escaped(_plain_login()),
            scram="org.apache.kafka.common.security.scram.ScramLoginModule required;",
            keystore=keystore,
            truststore=self.authority.certificate,
            logs=self._folder(node) / "data",
        )
        return (
            f"{text}listeners={','.join(listening)}\nadvertised.listeners={','.join(addresses)}\n"
        )

    def _folder(self, node: int) -> Path:
        return self.folder / f"node{node}"

    def _config(self, node: int) -> Path:
        return self._folder(node) / "server.properties"


def wait_until(condition: Callable[[], bool], what: str, seconds: float = START_S) -> None:
    """Poll until true; fail the test after the timeout."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.1)


def free_ports(count: int) -> list[int]:
    """Ports without a listener a moment ago."""
    with ExitStack() as open_sockets:
        found = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in found]


def _plain_login() -> str:
    def quoted(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"')

    users = " ".join(f'user_{name}="{quoted(word)}"' for name, word in PASSWORDS.items())
    return (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{ADMIN}" password="{quoted(PASSWORDS[ADMIN])}" {users};'
    )


def _escaped(value: str) -> str:
    # Java reads the file as Latin-1, with backslash escapes.
    return value.replace("\\", "\\\\")
