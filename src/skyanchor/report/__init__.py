"""Plots, the one-file HTML report and the live viewer. May touch: whatever stands below it.

build (results of stages) -> content (plain values) -> sections, charts, map_drawing (HTML and SVG) -> page, folder (one
file); live, live_folder, live_scene are the viewer, progress the terminal and the log.
"""
