"""A search space for data that nobody has described: look at the images, choose by rules, say why.

proposal = propose(look(images, path), Machine("cpu", cores=2, packaged=True))
proposal.text      the YAML of the space
proposal.choices   what was chosen and why, a line each
"""

from dmltune.propose.facts import Facts, look
from dmltune.propose.rules import Choice, Machine, Proposal, propose

__all__ = ["Choice", "Facts", "Machine", "Proposal", "look", "propose"]
