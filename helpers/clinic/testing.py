"""For other people's test suites."""

from __future__ import annotations

from collections.abc import Callable, Collection

from .diagnosis import diagnose
from .report import Report


def assert_healthy(
    fn: Callable[..., object], *inputs: object, allow: Collection[str] = (), seconds: float = 20.0
) -> Report:
    """Fail, with the findings as the message, unless ``fn`` is healthy.

    Args:
        fn: what ``diagnose`` takes.
        inputs: sample arguments.
        allow: findings to accept, by name.
        seconds: time limit.

    Raises:
        AssertionError: a finding above note level that is not allowed, or nothing could be examined.

    >>> import torch
    >>> assert_healthy(torch.exp, torch.ones(2, dtype=torch.double)).findings
    ()
    """
    __tracebackhide__ = True
    report = diagnose(fn, *inputs, seconds=seconds)
    bad = [finding for finding in report.findings if finding.severity != "note" and finding.slug not in allow]
    if bad or not report.examined:
        raise AssertionError(
            "\n\n".join([report.headline, *(finding.text() for finding in bad), *report.remarks])
        )
    return report
