"""One file a method: from rows of utterances to probabilities."""
