//! A user's own code: a short text file of shape and equations.
