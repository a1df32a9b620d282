"""One file for each method: it turns rows of utterances into probabilities and labels.

To add a method, write its file and import it here. A package of its own names its module in the group of entry points
``contradiction.methods``.
"""

from importlib.metadata import entry_points

from contradiction.methods import checkpoint, composite, decoder, llm_judge  # noqa: F401  # each registers itself

for plugin in entry_points(group="contradiction.methods"):
    plugin.load()
