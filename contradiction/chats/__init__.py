"""Files of chats: read in the forms that people keep them in, and answered a line at a time."""
