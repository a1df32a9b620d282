"""Runs an encoder: one interface, one file a backend."""
