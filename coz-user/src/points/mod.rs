//! points
