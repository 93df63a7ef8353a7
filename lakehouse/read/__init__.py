"""Files of a landing zone into the staged rows and the rejects of one batch, format by format."""
