"""Servers to try, test and measure with: embedded ones, nodes of containers, the quickstart."""
