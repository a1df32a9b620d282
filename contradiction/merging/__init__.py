"""One detector made of several trained ones: their weights averaged, or asked together."""
