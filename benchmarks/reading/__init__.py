"""Reading alone: landed files into staged rows, beside other ways to read the same bytes; and a file beyond memory."""
