"""Finding what is unseen: the listing, the plan and the sensor's tick against a bookmark that has seen very much."""
