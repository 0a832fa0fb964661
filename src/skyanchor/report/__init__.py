"""Plots, the one-file HTML report and the live viewer. May touch: whatever stands below it.

- *The page*: build (results of stages) -> content (plain values) -> sections, picture_sections, map_drawing, charts
  (HTML and SVG, by markup) -> page, folder (one file).
- *Parts of the content*: outcome, advice, provenance, words (sentences and figures); map_place, top_points, map_ahead
  (the map); match_pictures, scene_folder, before_after, hidden_part, change_part, mesh_part (what the stages made);
  drawings, still, shown_paths.
- *The viewer*: live, live_folder, live_scene. *The terminal and the log*: progress. *Elsewhere*: plots, notebook.
"""
