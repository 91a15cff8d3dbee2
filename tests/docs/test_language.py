"""Words that the project does not use, because Kafka or SREs have an ordinary word.

Texts are searched as a whole; of tests, only the names are. `WORDS` and `NAMES` only grow. A
legitimate use (somebody else's name, the ordinary meaning of a word) is a line in `LEGITIMATE`.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

# What stands on the left of the glossary, and what to write instead.
WORDS: Mapping[str, str] = {
    r"(?:way|lead\w*|led|br(?:ing|ings|ought)|going|c[oa]mes?)(?: \w+){0,3} home": "fail back",
    r"(?:at|is|are) home|homewards?": "on the source, failed back",
    r"ways? back": "rollback, failback",
    r"owe[ds]?|owing": "outstanding",
    r"st(?:and|ands|ood|anding) against|objections?": "blocker, blocked by",
    r"guards?": "precheck",
    r"pass(?:es|ed|ing)? over": "override, skip",
    r"cures?|cured": "remedy, fix",
    r"brought over|br(?:ing|ings|ought) the rest": "replicated, catch up",
    r"(?:left|leaves?) (?:\w+ )?behind": "not replicated",
    r"lack(?:s|ing|ed)?": "is missing",
    r"(?:tak(?:e|es|en|ing)|took|put(?:s|ting)?|turn(?:s|ed|ing)?) (?:\w+ )?back": "roll back",
    r"(?:go|goes|going|went|gone) on": "continue, resume",
    r"anew": "again, recreated",
    r"st(?:and|ands|ood|anding) still|stillness": "unchanged, stable",
    r"(?:is|are|was|were|be) read in(?= (?:on|at|by|there|now|before)|[.,;:)])": "active",
    r"(?:some|no)body reads": "has members",
    r"take stock|last look|second look": "snapshot-state, final precheck",
    r"begin at (?:boundary|end|start)|leave copies out": "the step's new id",
    r"prove (?:home|away|groups)|seed replication|settle owed": "the step's new id",
    r"-- ?(?:settle|patience|grace|budget|within)": "--stabilize, --timeout, --wait-for-consumers",
    r"the truth": "ground truth",
    r"survivors?": "the surviving cluster",
    r"still to copy": "backlog",
    r"the site(?: |'?)s|site's": "user-supplied, your",
    r"sight|hands(?! out)|wards?|patients?|lanes?": "reader, writer, record set",
    r"canar(?:y|ies) (?:that )?sings?|heard": "probe record, readable",
    r"whereabouts|going round|standing behind|newcomers|farewell": "the glossary's word",
    r"told(?! apart)|tells? (?:of|by|from)": "reported, observed, known",
    r"in peace(?: time)?|peacetime": "in normal operation",
    r"no yes|plays? a story|stories": "counts as failure, scenario",
    r"thrown back|st(?:and|ands|anding) before": "moved backwards, precede",
    r"endpoints? leads? to": "points to",
    r"behind (?:the|a|its) fence": "while the source is fenced",
}

# What is ordinary in a sentence, but not as a name.
NAMES: Mapping[str, str] = {
    r"(?:un)?(?:said|told)": "reported, output, message, answer",
    r"st(?:ands?|ood)": "status, committed, offsets",
}

# (file or folder, phrase, why): the phrase is not looked at there.
LEGITIMATE: tuple[tuple[str, str, str], ...] = (
    ("docs/howto/runbooks.md", "switch over at night", "a runbook about a night"),
    ("drctl/checks", "TypeGuard", "Python's name"),
    ("drctl/gap", "TypeGuard", "Python's name"),
    ("drctl/spark/session.py", "SurvivorRatio", "an option of the JVM"),
)

# (file or folder, name, why): names that stay.
LEGITIMATE_NAMES: tuple[tuple[str, str, str], ...] = (
    ("drctl/steps", "stand", "a key of facts in journals of earlier runs"),
    ("drctl/steps", "stood", "a key of intents in journals of earlier runs"),
)

AREAS = (
    *sorted(f"drctl/{p.name}" for p in (ROOT / "drctl").iterdir() if (p / "__init__.py").is_file()),
    *sorted(f"drctl/{p.name}" for p in (ROOT / "drctl").glob("*.py")),
    *("templates", "runbooks", "docs", "README.md", "CHANGELOG.md"),
    *("bench", "scripts", "Makefile", ".ci"),
)
NAMED_AREAS = (
    *("drctl", "bench", "scripts"),
    *sorted(f"tests/{p.name}" for p in (ROOT / "tests").iterdir() if p.suffix in ("", ".py")),
)
_WORD = re.compile(r"(?<![a-z])(?:" + "|".join(WORDS) + r")(?![a-z])")
_NAME = re.compile(r"(?<![a-z])(?:" + "|".join((*WORDS, *NAMES)) + r")(?![a-z])")
# The code's own words; they are counted there.
_GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)
# Scripts and the Makefile have none.
_ENDINGS = {"", ".py", ".j2", ".css", ".js", ".md", ".yaml", ".yml", ".json"}


def spoken(text: str) -> str:
    """Return the text as it is read: identifiers split, lines joined, lower case."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return re.sub(r"[\s_#*`\"]+|(?<=\w)-(?=\w)", " ", apart).lower()


@cache
def found(area: str) -> Counter[str]:
    """Return each use of a word with its file."""
    path = ROOT / area
    return Counter(use for each in _files(path) for use in _uses(each))


def _files(path: Path) -> list[Path]:
    within = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [each for each in within if each.suffix in _ENDINGS and each.is_file()]


def _uses(path: Path) -> Iterator[str]:
    name = str(path.relative_to(ROOT))
    ours = _GENERATED.sub("", path.read_text(encoding="utf-8"))
    text = f"{spoken(path.stem)} . {spoken(ours)}"
    for place, phrase, _ in LEGITIMATE:
        if name == place or name.startswith(f"{place}/"):
            text = text.replace(spoken(phrase), "")
    for match in _WORD.finditer(text):
        yield f"{name}: {text[max(0, match.start() - 30) : match.end() + 30]}"


def names(path: Path) -> Iterator[tuple[int, str]]:
    """Return the file's name and each identifier that it has, with its line."""
    yield 1, path.stem
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for field in ("id", "attr", "arg", "name", "asname", "rest"):
            if isinstance(name := getattr(node, field, None), str):
                yield getattr(node, "lineno", 1), name


@pytest.mark.parametrize("area", NAMED_AREAS)
def test_no_identifier_has_such_a_word(area: str) -> None:
    path = ROOT / area
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    uses = [
        f"{where}:{line}: {name}"
        for where, file in ((str(file.relative_to(ROOT)), file) for file in files)
        for line, name in names(file)
        if _NAME.search(spoken(name)) and not _is_legitimate(where, name)
    ]
    assert not uses, "\n".join(uses)


def _is_legitimate(file: str, name: str) -> bool:
    return any(
        (file == place or file.startswith(f"{place}/")) and spoken(kept) == spoken(name).strip()
        for place, kept, _ in (*LEGITIMATE, *LEGITIMATE_NAMES)
    )


@pytest.mark.parametrize("area", AREAS)
def test_no_word_of_the_glossarys_left_column(area: str) -> None:
    uses = sorted(found(area).elements())
    shown = "\n".join(uses[:200])
    assert not uses, f"{shown}\nInstead: docs/glossary.md and WORDS"


def test_every_legitimate_use_exists() -> None:
    for place, phrase, why in LEGITIMATE:
        path = ROOT / place
        texts = (spoken(each.read_text(encoding="utf-8")) for each in _files(path))
        assert any(spoken(phrase) in text for text in texts), (place, phrase)
        assert why


@pytest.mark.parametrize(
    "text",
    [
        "Lead the clients home",
        "what_is_owed",
        "TakenBack",
        "`taken-back`",
        "2 objections stand",
        "It goes\n    # on from there.",
        "links.NAME lacks it",
        "--patience 5m",
    ],
)
def test_such_words_are_found(text: str) -> None:
    assert _WORD.search(spoken(text)), text


@pytest.mark.parametrize("name", ["told", "Said", "UNTOLD", "_stands", "takenBack", "is_owed"])
def test_such_names_are_found(name: str) -> None:
    assert _NAME.search(spoken(name)), name


@pytest.mark.parametrize("name", ["standard", "standing", "understood", "standalone", "standby"])
def test_other_names_are_not(name: str) -> None:
    assert not _NAME.search(spoken(name)), name


@pytest.mark.parametrize(
    "text", ["safeguard", "homepage", "black", "cooked", "backwards", "security", "told apart"]
)
def test_other_words_are_not(text: str) -> None:
    assert not _WORD.search(spoken(text)), text
