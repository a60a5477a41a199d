//! Entries of the CPU back end.
