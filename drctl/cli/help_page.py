"""The text of --help with a little colour; Rich would double the time that it takes to appear."""

import re
import sys

from drctl.cli.options import Output, options
from drctl.cli.terminal import bold, cyan, wants_color

_HEADING = re.compile(r"^(Usage:|[A-Z][a-z ]+:$)", re.MULTILINE)
_ENTRY = re.compile(r"^(  )(-\S.*?|[a-z[A-Z]\S*(?: [A-Z]\S*)*)(?=  |$)", re.MULTILINE)


def help_page(command: str, text: str) -> str:
    """What --help prints."""
    if options().output is Output.JSON:
        import json

        return json.dumps({"schema": "drctl/help/1", "command": command, "text": text})
    return _colored(text) if wants_color(sys.stdout, options()) else text


def _colored(text: str) -> str:
    prose, found, lists = text.partition("\nCommands:\n")
    if not found:
        prose, found, lists = text.partition("\nOptions:\n")
    lists = _ENTRY.sub(lambda match: match[1] + cyan(match[2]), found + lists)
    return _HEADING.sub(lambda match: bold(match[0]), prose + lists)
