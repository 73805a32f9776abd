"""What all tests share."""

import os

# Networks of tests are small: threads of torch's that wait for each other would cost more than all else.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Libraries and examples that start Ray themselves: never on a cluster that happens to run on this machine.
os.environ["RAY_ADDRESS"] = "local"
os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
