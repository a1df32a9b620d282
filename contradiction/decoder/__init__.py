"""A causal language model that reads a chat once and judges every reply at its end."""
