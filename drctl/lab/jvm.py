"""Java command lines of the lab's parts: small, marked as this lab's, free of secrets."""

from dataclasses import dataclass
from pathlib import Path

from drctl.lab.files import write_private, write_properties
from drctl.lab.settings import LabSettings
from drctl.systems.artifacts.class_archive import classes_for, recorded_into


def lab_mark(root: Path) -> str:
    """The word by which every process of this lab is known in the process list."""
    return f"-Ddrctl.lab={root}"


@dataclass(frozen=True, slots=True)
class Jvm:
    """Java and the jars of one kind of part.

    Attributes:
        recording: whether each part writes down what it loads, for those that start later.
    """

    java: Path
    jars: tuple[Path, ...]
    root: Path
    settings: LabSettings
    recording: bool = False

    def command(self, part: str, main_class: str, *arguments: str) -> tuple[str, ...]:
        """Start a long-running part."""
        return (
            *(str(self.java), f"-Xms{min(128, self.settings.heap_mb)}m"),
            *(f"-Xmx{self.settings.heap_mb}m", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError"),
            *(() if self.settings.full_speed else ("-XX:TieredStopAtLevel=1",)),
            *self._classes(part),
            *("-Xshare:auto", "-Djava.awt.headless=true", lab_mark(self.root)),
            *(f"-Ddrctl.part={part}", f"-Dlog4j2.configurationFile={logging_file(self.root)}"),
            *("-cp", self._classpath(), main_class, *arguments),
        )

    def command_in_file(self, file: Path, main_class: str, *arguments: str) -> tuple[str, ...]:
        """Run a tool whose arguments nobody may see: they stand in a private file."""
        words = ("-cp", self._classpath(), main_class, *arguments)
        write_private(file, "".join(f'"{word}"\n' for word in words))
        quick = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
        ready = classes_for(self._folder)
        return (str(self.java), *quick, *ready, lab_mark(self.root), f"@{file}")

    def _classes(self, part: str) -> tuple[str, ...]:
        if self.recording:
            return recorded_into(recorded_classes(self.root, part))
        return classes_for(self._folder)

    def _classpath(self) -> str:
        return f"{self._folder}/*"

    @property
    def _folder(self) -> Path:
        (folder,) = {jar.parent for jar in self.jars}
        return folder


def recorded_classes(root: Path, part: str) -> Path:
    """Where a part that records writes down what it has loaded."""
    return root / f"{part}.jsa"


def logging_file(root: Path) -> Path:
    """Where the logging of all parts is configured."""
    return root / "log4j2.properties"


def write_logging(root: Path) -> None:
    """Everything from INFO up goes to the part's own log."""
    write_properties(
        logging_file(root),
        {
            "status": "error",
            "appender.out.type": "Console",
            "appender.out.name": "out",
            "appender.out.layout.type": "PatternLayout",
            "appender.out.layout.pattern": "%d{ISO8601} %p %m (%c{1})%n",
            "rootLogger.level": "info",
            "rootLogger.appenderRef.out.ref": "out",
        },
    )
