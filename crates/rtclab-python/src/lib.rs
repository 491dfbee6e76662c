//! Python binding of rtclab: conversions and error mapping, no logic.
