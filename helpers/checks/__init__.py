"""What a right answer must do, and the hint for each known way to be wrong.

One module per exercise notebook, one ``check_…`` function per exercise. The examiner is in ``exam``; it speaks
through ``verdict``, looks at an answer's form in ``rule`` and keeps global state clean in ``settings``.
"""

from .progress import summary

__all__ = ["summary"]
