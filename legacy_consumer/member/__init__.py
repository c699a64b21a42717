"""One member of a group, from the connector to its streams."""
