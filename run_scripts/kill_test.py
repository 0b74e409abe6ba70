"""Kills a tiny pretraining run many times and checks that it loses nothing.

    python run_scripts/kill_test.py [--kills=20] [--random_seed=12345]

`dev/kill_test.py` describes and runs the test.
"""

from dev import kill_test
from flags import common_flags

if __name__ == "__main__":
    kill_test.define_flags()
    common_flags.run(kill_test.main)
