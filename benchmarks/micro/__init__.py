"""What pieces of the hot path cost: `make bench-micro`."""
