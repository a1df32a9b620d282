"""One file for each method: it turns rows of utterances into probabilities and labels.

To add a method, write its file and import it here.
"""

from contradiction.methods import checkpoint, ensemble, hierarchical, kernel  # noqa: F401  # each registers itself
