"""The run folder: stages, recipes, jobs, and what is read back. Nothing else knows the layout.

May touch: whatever stands below it.
"""
