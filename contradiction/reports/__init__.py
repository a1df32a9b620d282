"""What is written for people to read: model cards and the page of results."""
