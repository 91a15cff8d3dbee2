"""Options of every JVM that tests start, and Java programs of some."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from drctl.artifacts.java import classes_for, find_java
from drctl.spark.session import jars as spark_jars


def classes_of(jars: Sequence[Path]) -> tuple[str, ...]:
    """Return options for a faster start, if `make test` has recorded the classes."""
    return classes_for(jars[0].parent)


def spark_classes() -> tuple[str, ...]:
    """Return the same for Spark's, which `make install` has recorded."""
    return classes_for(spark_jars())


def quick_executors() -> dict[str, str]:
    """Return Spark properties of executors that start often and do little."""
    return {
        "spark.executor.extraJavaOptions": " ".join(("-XX:TieredStopAtLevel=1", *spark_classes()))
    }


def compiled(sources: Path, jars: Sequence[Path], into: Path) -> Path:
    """Compile Java sources with the compiler in Spark: a Java runtime has none.

    It does not know lambdas and type arguments.
    """
    compiler = [str(each) for each in spark_jars().glob("commons-compiler-*.jar")]
    compiler += [str(each) for each in spark_jars().glob("janino-*.jar")]
    assert len(compiler) == 2
    command = [str(find_java()), "-cp", os.pathsep.join(compiler)]
    command += ["org.codehaus.commons.compiler.samples.CompilerDemo", "-d", str(into)]
    command += ["-classpath", os.pathsep.join(map(str, jars))]
    command += map(str, sorted(sources.rglob("*.java")))
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return into
