"""The adaptive attacker: disguises attacks that are caught until one gets through, and proposes rules against that.

A *disguise* is a function of a text that a language model can still read, a *class* a group of them, a *mutation* one
disguise or two in turn. A mutation *gets through* if the action of the verdict is `allow`. What gets through was not
detected; whether a model would follow it is not measured.
"""

from sidecar.harden.disguises import CLASSES, Disguise
from sidecar.harden.mutations import Mutation
from sidecar.harden.search import Result, Search

__all__ = ["CLASSES", "Disguise", "Mutation", "Result", "Search"]
