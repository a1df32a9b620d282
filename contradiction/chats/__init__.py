"""Chats as people keep them: any file in, verdicts out.

``formats`` gives lines, JSON and rows; ``readers`` and ``tables`` find the record, or the rows that form a chat;
``records`` reads its chats with the help of ``messages`` and ``names``; ``chunks`` numbers the chats and judges them;
``writers`` writes the verdicts. A ``detection`` runs all of this in one process or more, ``ray_engine`` over a folder.
"""
