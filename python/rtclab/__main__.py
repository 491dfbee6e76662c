"""``python -m rtclab`` is ``rtclab``."""

from rtclab.cli import main

# Not when a process of a pool imports it.
if __name__ == "__main__":
    main()
