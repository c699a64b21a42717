"""The operators' part of the package: administration, metrics, commands."""
