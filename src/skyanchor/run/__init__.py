"""The run folder: stages, recipes, jobs, and what is read back. Nothing else knows the layout.

- *The folder*: layout (what lies where), folder (stages that are done, or go on where they were), recipe (what a result
  depends on), known_files (files that must not change meanwhile), locks, remembered (a refused call leaves no trace).
- *What is in it*: inputs (what the user brought), records (what the stages leave), metrics, prepared (a prepared
  scaffold).
- *Read back*: results is the one reader; earlier is a run that later walks stand on.
- *Work*: job (one piece of it), executor (where jobs are run), pool, worker, nursery (processes of this machine),
  cluster (those of others).
- *Cost*: timing, memory, runtime (both as tables, as the paper has them).

May touch: whatever stands below it.
"""
