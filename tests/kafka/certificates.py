"""A certificate authority for tests, created with openssl."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

DAYS = "30"


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates; all files are in `folder`."""

    folder: Path
    name: str

    @property
    def certificate(self) -> Path:
        return self.folder / f"{self.name}.crt"

    @property
    def key(self) -> Path:
        return self.folder / f"{self.name}.key"

    def issue(self, name: str) -> "Certificate":
        """A certificate for CN=name that is valid for connections to this host."""
        issued = Certificate(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        _openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
                 "-keyout", issued.key, "-out", request)  # fmt: skip
        _openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key,
                 "-CAcreateserial", "-days", DAYS, "-extfile", extensions,
                 "-out", issued.chain)  # fmt: skip
        return issued


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key: PKCS#8 without password."""

    chain: Path
    key: Path

    def rewritten_key(self, *command: str) -> Path:
        """The same key in another format: the output of this openssl command."""
        other = self.key.with_suffix(f".{'-'.join(c.strip('-') for c in command[:2])}.key")
        _openssl(*command, "-in", self.key, "-out", other)
        return other


def make_authority(folder: Path, name: str) -> Authority:
    """Create an authority."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Authority(folder, name)
    _openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", DAYS,
             "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE",
             "-keyout", made.key, "-out", made.certificate)  # fmt: skip
    return made


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
