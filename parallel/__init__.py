"""Work on several processes, or on the nodes of a Ray cluster, and its progress."""
