"""Pre-trained encoders: how a run starts from one, and how one is made smaller."""
