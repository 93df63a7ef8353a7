"""CSV files: DuckDB reads the regular ones, the reader by the letter all others."""
