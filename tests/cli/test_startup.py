"""`drctl --help` imports nothing slow; `make bench` measures its time."""

import subprocess
import sys

SLOW = ("pyspark", "confluent_kafka", "pydantic", "jinja2", "yaml", "urllib3", "rich", "psutil")
PROGRAM = f"""
import sys
from drctl.cli.main import run
code = run(["--help"])
loaded = [name for name in {SLOW!r} if name in sys.modules]
sys.exit(f"loaded: {{loaded}}" if loaded or code else 0)
"""


def test_help_loads_nothing_slow() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
