"""The common subset of the JUnit schemas of Ant, Surefire and Jenkins."""

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

_SUITE = {
    *("id", "package", "name", "timestamp", "hostname", "tests", "failures", "errors", "skipped"),
    "time",
}
"""Attributes that the schemas of both Ant and Jenkins allow; includes all that one of them
requires."""


def suite_of(text: str) -> Element:
    """Return the suite of a document that all of them accept."""
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ufffe\uffff]", text)
    root = ElementTree.fromstring(text)
    assert (root.tag, root.attrib) == ("testsuites", {})
    (suite,) = root
    assert (suite.tag, set(suite.attrib)) == ("testsuite", _SUITE)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
    cases = suite.findall("testcase")
    order = [child.tag for child in suite]
    assert order == ["properties", *["testcase"] * len(cases), "system-out", "system-err"]
    for case in cases:
        assert set(case.attrib) == {"classname", "name", "time"}
        assert re.fullmatch(r"\d+\.\d{3}", case.attrib["time"])
        assert len(case) <= 1
        for element in case:
            wanted = {"message"} if element.tag == "skipped" else {"message", "type"}
            assert set(element.attrib) == wanted
    for tag, count in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert suite.attrib[count] == str(len(suite.findall(f"testcase/{tag}")))
    assert suite.attrib["tests"] == str(len(cases))
    return suite


def reds(suite: Element) -> int:
    """Return the number of failed cases."""
    return int(suite.attrib["failures"]) + int(suite.attrib["errors"])
