"""The commands of the command line: each parses, calls and prints. Heavy imports stand in the functions."""
