"""From a chat to model inputs: views, windows, tokenization, trees."""
