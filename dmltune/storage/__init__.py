"""Where files are kept when the machines of a cluster do not share a folder, and how they travel."""
