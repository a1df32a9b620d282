"""The detector inside other tools, which are not installed with the library."""
