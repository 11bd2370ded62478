"""The importable half of *Custom Gradients: a hands-on course*.

Rooms: ``functions`` (reference autograd Functions), ``numerics`` (finite differences), ``graph`` (what autograd
really built), ``clinic`` (what is wrong with a custom gradient), ``explorers`` (pictures to play with), ``checks``
(what a right answer must do), ``grading`` (a class, soundly), ``authoring`` (exercises from solutions).
"""

__version__ = "0.1.0"
