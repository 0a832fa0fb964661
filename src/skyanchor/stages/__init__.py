"""One file per stage of a run: settings, jobs, files, run. May touch: whatever stands below it."""
