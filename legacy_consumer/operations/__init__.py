"""What operators see and change: administration, metrics, commands."""
