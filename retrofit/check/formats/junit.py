"""`--format junit`: a test suite a file and a failure a finding, for CI servers that show test results."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from retrofit.check.finding import Report
from retrofit.check.formats.full import summary

#: What XML 1.0 cannot hold, not even escaped, and the other control characters.
_REFUSED = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    """Return an XML document, of ASCII characters alone so that it is what it says in whatever encoding it is written.

    A check that found nothing is one test that passes, as CI servers take a report without tests for a mistake.
    """
    root = Element("testsuites", name="retrofit check")
    suites: dict[str, Element] = {}

    def case(file: str, place: str, code: str) -> Element:
        if file not in suites:
            suites[file] = SubElement(root, "testsuite", name=_text(file))
        return SubElement(suites[file], "testcase", name=f"{place} {code}".strip(), classname=_text(file), time="0")

    for finding in report.findings:
        found = case(finding.file, f"{finding.line}:{finding.column}", finding.code)
        told = _text("\n".join([f"{finding.place}: {finding.code} {finding.message}", *finding.excerpt]))
        if finding.level == "open":
            SubElement(found, "skipped").text = told
        else:
            SubElement(found, "failure", type=finding.level, message=_text(finding.message)).text = told
    for problem in report.problems:
        place = f"{problem.line}:{problem.column}" if problem.line else ""
        error = SubElement(case(problem.file, place, problem.code), "error", type=problem.code)
        error.set("message", _text(problem.message))
        error.text = _text(str(problem))
    if not suites:
        case("retrofit check", "", summary(report))
    for suite in (root, *suites.values()):
        for name, kind in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
            suite.set(name, str(sum(1 for _ in suite.iter(kind))))
        suite.set("time", "0")
    indent(root)
    document = tostring(root, encoding="us-ascii", xml_declaration=False).decode("ascii")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{document}'


def _text(text: str) -> str:
    return _REFUSED.sub("", text)
