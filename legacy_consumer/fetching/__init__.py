"""Where messages come from: the seam, which fetcher and why, positions, and the fetchers."""
