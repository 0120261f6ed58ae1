"""The write path: what happens between a proposal and its row."""
