"""``python -m rtclab`` is ``rtclab``."""

from rtclab.cli import main

main()
