"""A JVM whose classes are called from Python."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pyspark

from drctl.artifacts.java import find_java

SPARK_JARS = Path(pyspark.__file__).parent / "jars"


@contextmanager
def java_machine(classpath: Sequence[Path | str]) -> Iterator[Any]:
    """Provide its classes by name; the JVM ends with the context."""
    py4j: Any = import_module("py4j.java_gateway")  # py4j has no type hints
    # A Spark session in this process patches py4j's exceptions for every JVM, and then iterating
    # over a Java collection fails at its end.
    py4j.get_return_value = import_module("py4j.protocol").get_return_value
    port, token, process = py4j.launch_gateway(
        classpath=os.pathsep.join(map(str, classpath)),
        jarpath=str(next(SPARK_JARS.glob("py4j-*.jar"))),
        java_path=str(find_java()),
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    parameters = py4j.GatewayParameters(port=port, auth_token=token, auto_convert=True)
    gateway = py4j.JavaGateway(gateway_parameters=parameters)
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait(20)
