"""What autograd really built: its nodes, the values that went forward, the gradients that came back."""

from .recorder import record
from .recording import Edge, Event, Node, Recording, Saved, numbers

__all__ = ["Edge", "Event", "Node", "Recording", "Saved", "numbers", "record"]
