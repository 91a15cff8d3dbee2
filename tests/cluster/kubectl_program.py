"""Stands in for `kubectl`: `get`, `patch`, `wait` and `exec` of resources in the file KUBECONFIG.

It runs nothing: `exec` sends the request of a `curl` to the address of the service. It knows the
few expressions of jsonpath and JSON Patch that docs/howto/strimzi.md uses.
"""

import argparse
import fcntl
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

_PART = re.compile(r'\.(\w+)|\[(\d+)\]|\[\?\(@\.(\w+)=="([^"]*)"\)\]')
_PAUSE_S = 0.05


@contextmanager
def resources(file: Path) -> Iterator[dict[str, Any]]:
    """All resources by name; what the block changes is kept."""
    with file.open("r+", encoding="utf-8") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        found = json.load(opened)
        yield found
        opened.seek(0)
        json.dump(found, opened)
        opened.truncate()


def value_of(resource: Any, expression: str) -> str:
    """What a jsonpath finds; empty if there is no such key."""
    found, path = resource, expression.removeprefix("{").removesuffix("}")
    assert _PART.sub("", path) == "", f"{expression} is not supported"
    for key, index, name, value in _PART.findall(path):
        if key:
            found = found.get(key)
        elif index:
            found = found[int(index)]
        else:
            found = next((each for each in found if each[name] == value), None)
        if found is None:
            return ""
    return str(found)


def patched(resource: dict[str, Any], changes: list[dict[str, Any]]) -> None:
    """Apply a JSON Patch to a resource."""
    for change in changes:
        *path, last = change["path"].strip("/").split("/")
        place: Any = resource
        for part in path:
            place = place[int(part)] if isinstance(place, list) else place[part]
        match change["op"], place:
            case "add", list():
                place.insert(int(last), change["value"])
            case "add", dict():
                place[last] = change["value"]
            case "remove", list():
                del place[int(last)]
            case _:
                raise AssertionError(f"{change} is not supported")
    resource["metadata"]["generation"] += 1


def is_so(resource: dict[str, Any], condition: str) -> bool:
    kind, _, what = condition.partition("=")
    if kind == "condition":
        return value_of(resource, f'.status.conditions[?(@.type=="{what}")].status') == "True"
    expression, _, wanted = what.rpartition("=")
    return value_of(resource, expression) == wanted


def requested(url: str) -> int:
    """As `curl -f` does: 22 if the response is an error."""
    try:
        with urlopen(url, timeout=10) as response:
            print(response.read().decode(), end="")
    except HTTPError:
        return 22
    return 0


def main(words: list[str]) -> int:
    file = Path(os.environ["KUBECONFIG"])
    if words[0] == "exec":
        _, service, *command, path = words
        assert command == ["--", "curl", "-sf"], command
        with resources(file) as found:
            url = found[service]["url"]
        return requested(path.replace("localhost:8083", url))
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=("get", "patch", "wait"))
    parser.add_argument("resource")
    parser.add_argument("-o", dest="output", default="")
    parser.add_argument("-p", dest="patch")
    parser.add_argument("--type", choices=("json",))
    parser.add_argument("--for", dest="condition", default="")
    parser.add_argument("--timeout", default="0s")
    given = parser.parse_args(words)
    until = time.monotonic() + float(given.timeout.removesuffix("s"))
    while True:
        with resources(file) as found:
            resource = found[given.resource]
            if given.verb == "get":
                print(value_of(resource, given.output.removeprefix("jsonpath=")), end="")
            elif given.verb == "patch":
                patched(resource, json.loads(given.patch))
            if given.verb != "wait" or is_so(resource, given.condition):
                return 0
        if time.monotonic() > until:
            print(f"timed out waiting for {given.condition}", file=sys.stderr)
            return 1
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
