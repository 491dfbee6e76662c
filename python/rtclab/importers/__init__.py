"""Makes traces from captures and logs of calls that rtclab did not run."""

from rtclab.importers.files import read_files
from rtclab.importers.imported import Imported, Names

__all__ = ["Imported", "Names", "read_files"]
