"""One file per stage of a run, with its settings, jobs, files and `run`; and the parts that the stages are made of.

- *Given to all of them*: work (the walk, and the scaffold it stands on), digests (of the user's files), earlier (runs
  that the walk stands on as well), job_files (what they leave for their jobs).
- *Before the first*: cuts (where the photos do not go on), outlook (how long it may take), beforehand (work that needs
  the walk alone).
- *The stages*: scaffold, with its parts windows, places, and splats, blocks; anchors; trajectory; scene, with
  street_depth, since, masks, vanished, view_pictures.
- *On request, after a run*: mesh, changes, merge.

May touch: whatever stands below it.
"""
