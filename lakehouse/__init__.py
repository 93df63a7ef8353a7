"""Files on S3 into Apache Iceberg: every business key once, newest version, with proof."""
