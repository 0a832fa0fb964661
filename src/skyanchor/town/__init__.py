"""The procedural town: demo scene and test truth."""
