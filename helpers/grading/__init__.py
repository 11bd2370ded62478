"""Grading a class with nbval: submission → overlay → runner → score → gradebook.

The trusted side. Nothing here imports torch or the rooms that do: a submission is data, its code runs in a kernel of its
own, and what the kernel says is compared here with values it does not know.
"""
