"""Rigid and similarity transforms, cameras, planes and robust estimation: pure functions. May touch: types."""
