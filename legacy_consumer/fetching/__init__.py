"""The message path: the seam, the choice of a fetcher, positions, and the fetchers."""
