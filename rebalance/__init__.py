"""Who owns what: from a picture of a group to an assignment, a plan, and owner znodes that show it."""
