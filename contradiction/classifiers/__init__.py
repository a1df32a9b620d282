"""What predicts a label for a reply: one checkpoint or several, and the rule that decides by their scores."""
