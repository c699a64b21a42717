"""The operator's operations on groups, as a library. The command line and the Spark sources call it."""
