"""Each file here with an object ``CORPUS`` describes one corpus."""
