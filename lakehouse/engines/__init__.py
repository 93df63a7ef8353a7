"""Engines that compute a batch; publishing never belongs to one."""
