"""Plots, the one-file HTML report and the live viewer."""
