"""The graph that autograd built, step by step: forward values flow down, backward gradients flow up.

Every number comes from a recording of the real graph (``helpers.graph``). Three modes, a module each: *injection* follows
one run; *substitution* puts the default chain rule beside a custom rule; *verification* nudges a coordinate and compares
slopes.
"""

from . import injection, substitution, verification
from .stepper import GraphStepper

__all__ = ["GraphStepper", "injection", "substitution", "verification"]
