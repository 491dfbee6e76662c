//! The network model in real time between network devices.
