//! The entry stubs and the functions they call.
