"""One file for each task: scores of models and baselines on other corpora."""
