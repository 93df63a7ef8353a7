"""What a load costs, against PyIceberg's own upsert on the same input, with every row of every timed run checked.

Development only: nothing in `lakehouse` imports it and the wheel does not ship it.
"""
