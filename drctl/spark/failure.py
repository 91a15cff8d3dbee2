"""Extracts the cause of a Spark failure in one sentence."""

import re

from py4j.protocol import Py4JError

_CAUSED_BY = re.compile(r"^Caused by: (?P<cause>.+)$", re.MULTILINE)
_LOST_TASK = re.compile(r"Lost task .*?\): (?P<cause>[^\n]+)")
_PACKAGE = re.compile(r"^(?:[a-z_$][\w$]*\.)+(?=[A-Z])")
_LENGTH = 400


def cause_of(error: Exception) -> str:
    """Return the innermost cause, without Java package and stack trace."""
    text = _full_text(error)
    causes = [m["cause"] for m in _CAUSED_BY.finditer(text)]
    causes += [m["cause"] for m in _LOST_TASK.finditer(text)][:1]
    sentence = causes[0] if len(causes) == 1 else causes[-2] if causes else text.split("\n")[0]
    return shortened(sentence.strip())


def shortened(cause: str) -> str:
    """Return a cause without the package of its class, truncated."""
    return _PACKAGE.sub("", cause)[:_LENGTH]


def was_interrupted(error: BaseException) -> bool:
    """Return whether an interrupt caused the error.

    On an interrupt PySpark cleans up over a connection that is still in use, and raises an error of
    its own.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return cause is not None


def _full_text(error: Exception) -> str:
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        return str(error)
    try:
        lines = [str(java.toString())]
        while (java := java.getCause()) is not None:
            lines.append(f"Caused by: {java.toString()}")
    except Py4JError:  # the JVM has ended: use what Python knows
        return str(error)
    return "\n".join(lines)
