//! Changing code at run time.
