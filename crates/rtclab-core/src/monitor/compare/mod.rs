//! Two points.
