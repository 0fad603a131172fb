//! Decoding of faults; calls the threshold with the right handler.
