"""deltacli: a command line for the people who look after Delta Lake tables."""

__version__ = "0.1.0"
