"""Files whose columns have types of their own: Parquet, ORC and Avro."""
