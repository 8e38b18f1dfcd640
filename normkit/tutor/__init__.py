"""The tutor: what observes an answer, judges it, and says which mistake it behaves like.

A folder for each assignment: its tasks, its right programs, and its mistakes as diffs of these.
"""
