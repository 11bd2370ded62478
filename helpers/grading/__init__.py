"""Grading a class with nbval: submission → overlay → runner → score → gradebook.

The trusted side. Nothing here imports torch or the rooms that do: a submission is data, its code runs in a kernel of its
own, and what the kernel says is compared here with values it does not know.
"""

import sys

# nbformat validates with jsonschema, which imports this package where it is installed, for the syntax of addresses that
# no notebook has. Its grammar takes two seconds to build, in each process: more than all the rest of a run.
sys.modules.setdefault("rfc3987_syntax", None)
