"""The command line: parse, call, print. May touch: whatever stands below it.

main finds the verb; options and help hold the everyday words; runs and dataset_runs are the verbs whose options are the
settings of the stages. Each other file is a family of verbs: looking (evaluate, ablate, report, view), machine (what
this machine can do, weights, a town), or the one that it is named after. stopping says how work ends before its end.
"""
