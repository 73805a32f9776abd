"""What all tests share."""

import os

# Networks of tests are small: threads of torch's that wait for each other would cost more than all else.
os.environ.setdefault("OMP_NUM_THREADS", "1")
