//! Says what a code is: identity, shape, equations, source.
