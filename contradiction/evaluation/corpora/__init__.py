"""One file a task: how a model, and baselines that need none, do on the corpora of ``contradiction.data.corpora``."""
