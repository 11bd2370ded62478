"""The clinic: ``diagnose(fn, *inputs)`` names what is wrong with a custom gradient, shows why, and how to cure it."""

from .diagnosis import diagnose
from .report import Evidence, Finding, Report
from .testing import assert_healthy

__all__ = ["Evidence", "Finding", "Report", "assert_healthy", "diagnose"]
