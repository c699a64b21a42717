"""Ownership of partitions: from a snapshot of a group to an assignment, a plan, and owner znodes."""
