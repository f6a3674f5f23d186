"""Propose a search space for a folder of images, by rules, with the reason for each choice.

proposal = propose(look(images, path), Machine("cpu", cores=2, packaged=True))
proposal.text      the YAML of the space
proposal.choices   each choice and its reason, one line each

With the weights of several backbones on this machine, `compare` measures them frozen; the best is proposed.
"""

from dmltune.propose.backbones import FrozenBackbone, compare, weights_here
from dmltune.propose.facts import Facts, look
from dmltune.propose.method import Choice
from dmltune.propose.rules import Machine, SpaceProposal, photo_size, propose

__all__ = [
    "Choice",
    "Facts",
    "FrozenBackbone",
    "Machine",
    "SpaceProposal",
    "compare",
    "look",
    "photo_size",
    "propose",
    "weights_here",
]
