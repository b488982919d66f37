"""Build requests and their execution: order, parallelism, locks, results."""
