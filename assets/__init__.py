"""The tables of this project: one declaration per folder below `defs`, found by `definitions`."""
