"""One file for each method: it turns rows of utterances into probabilities and labels.

To add a method, write its file and import it here.
"""

from contradiction.methods import (  # noqa: F401  # each registers itself
    cascade,
    checkpoint,
    ensemble,
    hierarchical,
    kernel,
    llm_judge,
)
