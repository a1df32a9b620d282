"""What a detector is worth on rows with labels: its scores, their intervals, and what they are compared with."""
