//! `rtclab._native`: the Python module of rtclab, with rtclab's own congestion controls.

rtclab_extension::extension!();
