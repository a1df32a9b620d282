"""One file a corpus."""
