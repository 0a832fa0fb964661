"""The command line: parse, call, print. May touch: whatever stands below it.

main finds the verb; options and help hold the everyday words, runs and scene_runs the settings of the stages; each
other file is a family of verbs.
"""
