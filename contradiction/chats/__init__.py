"""Chats as people keep them: any file in, verdicts out.

The stations of a line: ``text`` gives text and JSON, ``rows`` and ``parquet_files`` give cells; ``readers`` and
``tables`` find the record, or the rows that form a chat; ``records`` reads its chats with the help of ``messages``,
``transcripts`` and ``names``; ``entries`` checks and numbers them; ``chunks`` judges them; ``writers`` writes the
verdicts. A ``detection`` runs all of this in one process or several, and ``ray_engine`` over a folder.
"""
