"""The shape of an anchor group from its own frames, before any aerial evidence is looked at."""
