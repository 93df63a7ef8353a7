"""What operators look at: where a table stands, what became of a batch or an object, and whether it all adds up.

Reads the table, its state and its ledger; changes nothing.
"""
