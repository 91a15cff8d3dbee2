"""Drops packets to and from ports of this machine, like a broken network."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from drctl.model.errors import Stopped


def can_cut_off() -> bool:
    """Whether this machine supports it: nftables, with sufficient rights."""
    return shutil.which("nft") is not None and os.geteuid() == 0


@contextmanager
def cut_off(ports: Sequence[int]) -> Iterator[None]:
    """Drop all packets to and from these TCP ports until the block ends.

    Raises:
        Stopped: packets cannot be dropped here.
    """
    table = f"drctl_{os.getpid()}_{ports[0]}"
    numbers = ", ".join(map(str, ports))
    rules = (
        f"table inet {table} {{\n chain input {{\n  type filter hook input priority 0;\n"
        f"  tcp dport {{ {numbers} }} drop\n  tcp sport {{ {numbers} }} drop\n }}\n}}\n"
    )
    _nft("-f", "-", text=rules)
    try:
        yield
    finally:
        _nft("delete", "table", "inet", table)


def _nft(*words: str, text: str = "") -> None:
    if not can_cut_off():
        raise Stopped("packets can only be dropped as root, with nftables installed")
    done = subprocess.run(
        ["nft", *words], input=text, capture_output=True, text=True, timeout=10, check=False
    )
    if done.returncode:
        raise Stopped(f"nft does not drop packets: {done.stderr.strip()[:300]}")
