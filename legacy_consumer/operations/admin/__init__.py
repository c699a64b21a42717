"""The operator's verbs on groups, as a library: the command line and the Spark sources stand on it."""
