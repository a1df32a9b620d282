"""The commands of the command line. Each parses options, calls the library and prints; heavy imports are inside."""
