"""Side-by-side benchmarks: same data, same run, equal accuracy, peers at their best settings."""
