"""What is hidden and suppressed: the store of tombstones, and the secrets that their hashes are made with."""
