//! Register sets as tracers and core dumps see them.
