"""Reading after thirty days of daily merges: as these leave a table, compacted, and as one load would have made it."""
