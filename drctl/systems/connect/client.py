"""A small client of Connect's REST interface: several workers, one deadline, clear errors."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import urllib3

from drctl.model.errors import DrctlError, Unknown, Unreachable, UsageError
from drctl.systems import presence
from drctl.systems.connect.status import ConnectorStatus, read_status

# Said while a rebalance is under way, and of other things; only the message tells which.
_PERHAPS_REBALANCING = (409, 500)
_FOR_A_MOMENT = (b"rebalanc", b"momentarily")
_PAUSE_S = 0.1


class ConnectRejected(Unknown):
    """The worker answered, and refused."""


class NoSuchConnector(UsageError):
    """The worker has no connector of this name."""


class ConnectReader:
    """Looks at the connectors of a Connect cluster; changes nothing.

    Args:
        urls: of its workers; the next is asked where one does not answer.
        timeout_s: for each call, retries included.
    """

    def __init__(self, *urls: str, timeout_s: float = 10) -> None:
        self.urls = tuple(url.rstrip("/") for url in urls)
        self.timeout_s = timeout_s
        self._pool = urllib3.PoolManager(retries=False)
        self._party = presence.party(("connect", self.urls), "Kafka Connect")

    def kafka_cluster_id(self) -> str:
        """The cluster that the workers keep their state in.

        Raises:
            ConnectRejected: whatever answered does not say it, as a proxy may.
            Unreachable: no worker answered within the deadline.
        """
        found = self._get("/")
        if not isinstance(found, dict) or not found.get("kafka_cluster_id"):
            workers = ", ".join(map(_printable, self.urls))
            raise ConnectRejected(
                f"Kafka Connect ({workers}) does not say of which Kafka cluster it is",
                "See that GET / comes to the worker itself.",
            )
        return str(found["kafka_cluster_id"])

    def connectors(self) -> tuple[str, ...]:
        """Names of all connectors, sorted.

        Raises:
            Unreachable: no worker answered within the deadline.
        """
        return tuple(sorted(self._get("/connectors")))

    def statuses(self) -> dict[str, ConnectorStatus]:
        """The states of all connectors and their tasks.

        Raises:
            Unreachable: no worker answered within the deadline.
        """
        answer = self._get("/connectors?expand=status")
        return {name: read_status(answer[name]["status"]) for name in sorted(answer)}

    def status(self, name: str) -> ConnectorStatus:
        """The state of one connector and its tasks.

        Raises:
            NoSuchConnector: there is none of this name.
            ConnectRejected: nothing is known yet of one that there is.
            Unreachable: no worker answered within the deadline.
        """
        try:
            return read_status(self._get(f"{_path(name)}/status"))
        except NoSuchConnector:
            # A worker that starts says so of every connector until it has read what it keeps.
            if name not in self.connectors():
                raise
            raise ConnectRejected(
                f"Kafka Connect does not know the status of connector {name} yet",
                "The worker's own log says more.",
            ) from None

    def config(self, name: str) -> dict[str, str]:
        """A connector's configuration, as it was given.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        return dict(self._get(f"{_path(name)}/config"))

    def task_count(self, name: str) -> int:
        """How many tasks it is to have, as the workers keep it; none once its stop is stored.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        # The connector's own path is answered only after tasks that are being stopped have ended.
        every = self._get("/connectors?expand=info")
        if name not in every:
            raise NoSuchConnector(f"Kafka Connect has no connector {name}")
        return len(every[name]["info"]["tasks"])

    def offsets(self, name: str) -> tuple[dict[str, Any], ...]:
        """A connector's source (or sink) offsets: `{"partition": ..., "offset": ...}` each.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        return tuple(self._get(f"{_path(name)}/offsets")["offsets"])

    def present(self) -> None:
        """See whether a worker is there that does its work, whatever it says.

        Raises:
            Unreachable: no worker answered within a short time.
        """
        patience = min(presence.PATIENCE_S, self.timeout_s)
        self._answer("GET", "/connectors", None, time.monotonic() + patience, patience)

    def expect(self) -> None:
        """See that it is worth asking something; known in this run, or asked now.

        Raises:
            Unreachable: no worker answers.
        """
        if self._party is not None:
            self._party.expect(self.present, self.present)

    def close(self) -> None:
        """Release connections."""
        self._pool.clear()

    def _get(self, path: str) -> Any:
        return self._call("GET", path)

    def _call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        self.expect()
        until = time.monotonic() + self.timeout_s
        while True:
            answer = self._answer(method, path, body, until)
            suspect = answer.status in _PERHAPS_REBALANCING
            busy = suspect and any(word in answer.data.lower() for word in _FOR_A_MOMENT)
            if not busy or time.monotonic() + _PAUSE_S >= until:
                return self._value(answer, method, path)
            time.sleep(_PAUSE_S)

    def _answer(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        until: float,
        within_s: float | None = None,
    ) -> urllib3.BaseHTTPResponse:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        reason: Exception | None = None
        for number, url in enumerate(self.urls):
            share = (until - time.monotonic()) / (len(self.urls) - number)
            patience = urllib3.Timeout(total=max(0.1, share))
            try:
                return self._pool.request(
                    method, url + path, body=content, headers=headers, timeout=patience
                )
            except urllib3.exceptions.HTTPError as error:
                reason = error
        silent = self._silent(reason, self.timeout_s if within_s is None else within_s)
        if self._party is not None:
            self._party.silent(silent)
        raise self._no_answer(method, reason, silent)

    def _silent(self, reason: Exception | None, within_s: float) -> Unreachable:
        workers = ", ".join(_printable(url) for url in self.urls)
        because = type(reason).__name__ if reason else "no URL is configured"
        return Unreachable(
            f"Kafka Connect ({workers}) did not answer within {within_s:g} s: {because}",
            "Check that the worker runs and that `connect` of the replicator in drctl.yaml fits.",
        )

    def _no_answer(
        self, _method: str, _reason: Exception | None, silent: Unreachable
    ) -> DrctlError:
        """What a call ends with that got no answer."""
        return silent

    def _value(self, answer: urllib3.BaseHTTPResponse, method: str, path: str) -> Any:
        text = answer.data.decode(errors="replace")
        if answer.status < 300:
            return json.loads(text) if text else None
        message, own = _complaint(text)
        # A worker that starts answers 404 to everything for seconds, and not in Connect's words.
        if answer.status == 404 and own and path.startswith("/connectors/"):
            raise NoSuchConnector(
                f"Kafka Connect: {message}", "Check `connectors` of the replicator in drctl.yaml."
            )
        raise ConnectRejected(
            f"Kafka Connect answered {answer.status} to {method} {path}: {message}",
            "The worker's own log says more.",
        )


class ConnectWriter(ConnectReader):
    """Changes connectors, too."""

    def put_config(self, name: str, config: Mapping[str, str]) -> None:
        """Create the connector, or give it this configuration.

        Raises:
            ConnectRejected: the worker does not accept the configuration.
            Unknown: no answer came; it may have been taken.
        """
        self._call("PUT", f"{_path(name)}/config", config)

    def pause(self, name: str) -> None:
        """Let its tasks idle; they keep their resources.

        Raises:
            NoSuchConnector: there is none of this name.
        """
        self._call("PUT", f"{_path(name)}/pause")

    def stop(self, name: str) -> None:
        """End its tasks; its configuration and offsets stay.

        Raises:
            NoSuchConnector: there is none of this name.
        """
        self._call("PUT", f"{_path(name)}/stop")

    def resume(self, name: str) -> None:
        """Let it go on after `pause` or `stop`.

        Raises:
            NoSuchConnector: there is none of this name.
        """
        self._call("PUT", f"{_path(name)}/resume")

    def restart(self, name: str) -> None:
        """Start the connector and those of its tasks that failed again.

        Raises:
            NoSuchConnector: there is none of this name.
        """
        self._call("POST", f"{_path(name)}/restart?includeTasks=true&onlyFailed=true")

    def create_stopped(self, name: str, config: Mapping[str, str]) -> None:
        """Create the connector, STOPPED from the first (Kafka 3.7 and later).

        Raises:
            ConnectRejected: there is one of this name, or the configuration is not accepted.
            Unknown: no answer came; it may have been taken.
        """
        body = {"name": name, "config": dict(config), "initial_state": "STOPPED"}
        self._call("POST", "/connectors", body)

    def configure(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Change some keys of its configuration, and leave all others; None removes one.

        Raises:
            NoSuchConnector: there is none of this name.
            ConnectRejected: the worker does not accept the configuration.
            Unknown: no answer came; it may have been taken.
        """
        config: dict[str, str | None] = {**self.config(name), **changes}
        self.put_config(name, {key: value for key, value in config.items() if value is not None})

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, Any]]) -> None:
        """Set its offsets of these partitions; one without an offset is forgotten (KIP-875).

        Raises:
            NoSuchConnector: there is none of this name.
            ConnectRejected: it is not stopped, or does not accept them.
            Unknown: no answer came; they may have been taken.
        """
        self._call("PATCH", f"{_path(name)}/offsets", {"offsets": list(offsets)})

    def delete(self, name: str) -> None:
        """Remove the connector.

        Raises:
            NoSuchConnector: there is none of this name.
        """
        self._call("DELETE", _path(name))

    def _no_answer(self, method: str, reason: Exception | None, silent: Unreachable) -> DrctlError:
        refused = isinstance(reason, urllib3.exceptions.NewConnectionError)
        if method == "GET" or refused:
            return silent
        return Unknown(f"{silent.message}; it may have done what was asked", silent.hint)


def _complaint(text: str) -> tuple[str, bool]:
    """What an answer complains of, and whether it is Connect that does, with a code of its own."""
    try:
        found = json.loads(text)
        return str(found["message"]), "error_code" in found
    except (ValueError, KeyError, TypeError):
        return text[:300], False


def _path(connector: str) -> str:
    return f"/connectors/{quote(connector, safe='')}"


def _printable(url: str) -> str:
    """The URL without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
