"""Records that are objects of fields: JSON lines, JSON documents and XML."""
