"""Types drctl's commands, and after a crash or refusal the commands that drctl suggests."""

import json
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from drctl.lab.lab import Lab
from drctl.model.errors import ExitCode, Stopped
from drctl.reconcile.prechecks import Precheck
from tests.cli.conftest import DRCTL, clean_environment
from tests.kafka.tools import run_tool
from tests.soak.fault_injection import Injector, Runs
from tests.soak.round_plan import DRCTL as HOST
from tests.soak.sandbox import SECOND

_WAIT_S = 1.0
_LOOK_S = 0.1
_ARRIVED = (ExitCode.DONE, ExitCode.FOUND)
_ALLOWED = (*_ARRIVED, ExitCode.REFUSED, ExitCode.STOPPED, ExitCode.UNKNOWN, -signal.SIGKILL)
"""Exit codes that are correct under any fault: commands are valid, and only SIGKILL interrupts
them."""
_CURL, _CURL_S = re.compile(r"curl -s -X (PUT|POST) (http[^\s\\\";]+)"), 30
_TRACEBACK = "Traceback (most recent call last)"
_ABORT = re.compile(
    r"kafka-transactions\.sh --bootstrap-server \W+(\w+)\W+--command-config admin\.properties"
    r" abort --topic (\S+) --partition (\d+) --start-offset (\d+)"
)
_EMPTY = re.compile(r"unanswered questions: empty-(\w+):")
_RESULTS = Path(".drctl", "gap")
_OUTDATED = tuple(map(json.dumps, (Precheck.SOURCE_MOVED, Precheck.INCOMPLETE)))


@dataclass(frozen=True, slots=True)
class Attempt:
    """A command line and its exit code; negative for a signal.

    Attributes:
        wrong: why no command may end like this; empty if it may.
        host: where it was typed.
    """

    words: tuple[str, ...]
    code: int
    seconds: float
    wrong: str = ""
    host: str = HOST

    def __str__(self) -> str:
        ended = "killed" if self.code == -signal.SIGKILL else self.code
        return f"{self.words[0]} {ended}{'' if self.host == HOST else ' (second operator)'}"


def wrong_ending(code: int, stderr: str) -> str:
    """Return why drctl is at fault regardless of injected faults; empty if it need not be."""
    if _TRACEBACK in stderr:
        last_line = stderr.strip().splitlines()[-1].strip()
        return f"exit code {code} and a traceback: {last_line}"
    return "" if code in _ALLOWED else f"exit code {code}"


def send_suggested(document: str) -> None:
    """Send the requests to Connect that drctl suggests with `curl` in an error document."""
    for method, url in _CURL.findall(document):
        request = urllib.request.Request(url, method=method)
        try:
            urllib.request.urlopen(request, timeout=_CURL_S).close()
        except OSError as error:
            # Connect may be down; the next refusal suggests it again.
            print(f"{method} {url}: {error}", flush=True)


def abort_suggested(document: str, lab: Lab, folder: Path) -> None:
    """Abort the hanging transactions for which drctl suggests that, with Kafka's own tool."""
    for variable, topic, partition, start in sorted(set(_ABORT.findall(document))):
        properties = lab.cluster(variable.lower()).client_properties()
        words = (
            *("kafka-transactions.sh", "--bootstrap-server", properties["bootstrap.servers"]),
            *("--command-config", "admin.properties", "abort", "--topic", topic),
            *("--partition", partition, "--start-offset", start),
        )
        ran = run_tool(words, properties, folder)
        print(f"{' '.join(words)}: exit code {ran.code} {ran.stderr}", flush=True)


@dataclass(slots=True)
class Engineer:
    """Types commands until the applications are where they should be.

    Attributes:
        folder: has drctl.yaml and drctl's output.
        leg_s: time limit of a leg, however often drctl is killed.
        empty: empties a cluster when drctl asks for it.
        attempts: all commands in order.
    """

    folder: Path
    stopping: threading.Event
    leg_s: float
    empty: Callable[[str], object] | None = None
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def runs(self) -> Runs:
        """The runs of both hosts."""
        return Runs(tuple(self._home(host) / ".drctl" / "runs" for host in (HOST, SECOND)))

    def interfere(self, words: tuple[str, ...], injector: Injector) -> None:
        """Be a second operator: on another host, repeat the command and then resume the run.

        Both are refused while the first drctl runs. This host has the gap results, too.
        """
        until = time.monotonic() + self.leg_s
        home = self._home(SECOND)
        home.mkdir(exist_ok=True)
        shutil.copy(self.folder / "drctl.yaml", home)
        if (results := self.folder / _RESULTS).exists():
            # Hidden folders are not complete yet.
            hidden = shutil.ignore_patterns(".*")
            shutil.copytree(results, home / _RESULTS, ignore=hidden, dirs_exist_ok=True)
        for each in (words, ("resume",)):
            typed, _ = self._written(
                (*each, "--execute", "--yes"), None, lambda: None, until, SECOND
            )
            run = injector.run()
            if typed.code == ExitCode.USAGE and run and self._status(run, until, SECOND):
                self._forgive(typed)
            if typed.code != ExitCode.REFUSED:
                return

    def lead(
        self, words: tuple[str, ...], injector: Injector, meanwhile: Callable[[], None]
    ) -> tuple[Attempt, ...]:
        """Complete a plan; after a refusal retry once all components are repaired.

        Args:
            meanwhile: called often while drctl runs.

        Raises:
            Stopped: the leg exceeded its time limit.
        """
        until = time.monotonic() + self.leg_s
        first = len(self.attempts)
        answer: tuple[str, ...] = ()
        while True:
            chosen = ("resume",) if self._unfinished(injector) else (*words, *answer)
            answer = ()
            line = (*chosen, "--execute", "--yes")
            typed, output = self._written(line, injector, meanwhile, until)
            injector.mended()
            if typed.code == ExitCode.REFUSED:
                send_suggested(output)
            if (asked := _EMPTY.search(output)) and self.empty:
                # For example, replication has copied records twice before a rebuild stopped.
                self.empty(asked[1])
                answer = ("--answer", f"empty-{asked[1]}=yes")
            abort_suggested(output, injector.lab, self.folder)
            if words[0] == "reconcile" and any(each in output for each in _OUTDATED):
                # For example, a broker has aborted a transaction since the comparison.
                at = words.index("--link")
                self.type("gap", "--scope", "full", *words[at : at + 2])
            if typed.code in _ARRIVED or self._ended(injector) == "done":
                return tuple(self.attempts[first:])
            if typed.code == ExitCode.USAGE and (how := self._had_ended(injector, until)):
                self._forgive(typed)
                if how == "done":
                    return tuple(self.attempts[first:])
            if time.monotonic() > until:
                reported = ", ".join(map(str, self.attempts[first:]))
                raise Stopped(
                    f"drctl {words[0]} did not finish within {self.leg_s:.0f} s: {reported}"
                )
            if self.stopping.wait(_WAIT_S):
                raise KeyboardInterrupt

    def type(self, *words: str, host: str = HOST) -> tuple[int, str]:
        """Run a reading command; return its exit code and stdout."""
        until = time.monotonic() + self.leg_s
        typed, output = self._written(words, None, lambda: None, until, host)
        return typed.code, output

    def _home(self, host: str) -> Path:
        return self.folder if host == HOST else self.folder / host

    def _forgive(self, typed: Attempt) -> None:
        """Do not blame drctl for this exit code."""
        place = next(n for n, each in enumerate(self.attempts) if each is typed)
        self.attempts[place] = replace(typed, wrong="")

    def _unfinished(self, injector: Injector) -> bool:
        """Whether a run of this leg is unfinished."""
        return bool(injector.entries()) and not self._ended(injector)

    def _ended(self, injector: Injector) -> str:
        last: dict[str, Any] = next(reversed(injector.entries()), {})
        return str(last["status"]) if last.get("entry") == "ended" else ""

    def _had_ended(self, injector: Injector, until: float) -> str:
        """Return how the run of this leg ended; empty if it did not.

        A run whose drctl was killed between the last entry and the local copy need not be resumed.
        """
        run = injector.run()
        status = self._status(run, until, HOST) if run else ""
        if status:
            injector.known |= {run}
        return status

    def _status(self, run: str, until: float, host: str) -> str:
        """Return how a run ended by `drctl journal`; empty if it did not."""
        while (found := self.type("journal", host=host))[0] != ExitCode.DONE:
            if time.monotonic() > until or self.stopping.wait(_WAIT_S):
                return ""
        runs = json.loads(found[1])["runs"]
        status = next((str(each["status"]) for each in runs if each["run"] == run), "")
        return "" if status == "not-ended" else status

    def _written(
        self,
        words: tuple[str, ...],
        injector: Injector | None,
        meanwhile: Callable[[], None],
        until: float,
        host: str = HOST,
    ) -> tuple[Attempt, str]:
        began = time.monotonic()
        home = self._home(host)
        number = len(list(home.glob("drctl-*.json"))) + 1
        out = home / f"drctl-{number:02}-{words[0]}.json"
        line = (str(DRCTL), "--config", str(home / "drctl.yaml"), *words, "-o", "json")
        with out.open("wb") as stdout, out.with_suffix(".stderr").open("wb") as stderr:
            process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=home,
                env={**clean_environment(), "SOAK_HOST": host},
                start_new_session=True,  # Ctrl-C must reach only the soak test
            )
        try:
            if injector is not None:
                injector.process = process
            while process.poll() is None and time.monotonic() < until:
                meanwhile()
                if self.stopping.wait(_LOOK_S):
                    raise KeyboardInterrupt
        finally:
            if process.poll() is None:
                process.kill()
            code = process.wait(30)
        errors = out.with_suffix(".stderr").read_text(encoding="utf-8", errors="replace")
        wrong = wrong_ending(code, errors)
        typed = Attempt(words, code, time.monotonic() - began, wrong, host)
        self.attempts.append(typed)
        return typed, out.read_text(encoding="utf-8")
