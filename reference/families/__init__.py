"""One readable constructor per code family. Each takes the canonical spec text and the parsed numbers, and returns a Code."""
