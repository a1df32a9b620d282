"""One file a corpus: a file of this folder that holds an object ``CORPUS`` is one."""
