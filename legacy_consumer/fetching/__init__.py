"""The message path: the Fetcher seam, the choice of a fetcher, positions, and the fetchers."""
