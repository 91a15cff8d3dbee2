"""The machine and the versions of a measurement."""

import os
import platform
from importlib.metadata import version
from typing import Any

import confluent_kafka
import psutil

from drctl.artifacts.jars import KAFKA, SPARK
from drctl.artifacts.java import find_java, java_version


def machine() -> dict[str, Any]:
    """Return cores, memory and versions; nothing that identifies the machine.

    Raises:
        JavaMissing: there is no Java here.
    """
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "load_before": [round(load, 1) for load in os.getloadavg()],
        "versions": {
            "drctl": version("drctl"),
            "python": platform.python_version(),
            "java": java_version(find_java()),
            "pyspark": version("pyspark"),
            "spark-sql-kafka": SPARK,
            "kafka": KAFKA,
            "confluent-kafka": version("confluent-kafka"),
            "librdkafka": confluent_kafka.libversion()[0],
            "typer": version("typer"),
        },
    }
