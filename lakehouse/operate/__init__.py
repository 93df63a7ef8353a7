"""What an operator does to a table beside loading it: each change is one published version with author and reason.

`operator_change` publishes; the others decide one kind of change each.
"""
