"""Certificates for the lab's TLS listeners, made with the keytool of the Java that runs Kafka."""

import subprocess
from pathlib import Path

from drctl.lab.files import private_folder
from drctl.lab.secrets import TLS_STORE, Secrets
from drctl.lab.settings import HOST
from drctl.model.errors import Stopped


def write_certificates(root: Path, cluster: str, java: Path) -> None:
    """A self-signed key for the brokers of a cluster, and its certificate for their clients.

    Raises:
        Stopped: keytool failed.
    """
    folder = private_folder(root / "tls")
    store, certificate = folder / f"{cluster}.p12", folder / f"{cluster}.pem"
    if certificate.exists():
        return
    store.unlink(missing_ok=True)
    # By file: a password among the arguments would stand in the process list.
    common = ("-keystore", str(store), "-storetype", "PKCS12", "-alias", "broker")
    word = ("-storepass:file", str(Secrets(root / "secrets").file(cluster, TLS_STORE)))
    _keytool(
        java,
        *("-genkeypair", *common, *word, "-keyalg", "EC", "-validity", "3650"),
        *("-dname", f"CN={cluster} of a drctl lab", "-ext", f"SAN=IP:{HOST},DNS:localhost"),
    )
    store.chmod(0o600)
    _keytool(java, "-exportcert", "-rfc", *common, *word, "-file", str(certificate))


def _keytool(java: Path, *arguments: str) -> None:
    tool = java.resolve().with_name("keytool")
    try:
        done = subprocess.run(
            [tool, *arguments], capture_output=True, text=True, check=False, timeout=60
        )
    except OSError as error:
        raise Stopped(
            f"{tool} does not run: {error}", "It belongs to every Java runtime."
        ) from error
    if done.returncode != 0:
        raise Stopped(f"keytool failed: {(done.stdout + done.stderr).strip()[:300]}")
