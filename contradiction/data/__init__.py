"""The data set: from the raw file to the repo that is published, its checklists, and the corpora used before it."""
