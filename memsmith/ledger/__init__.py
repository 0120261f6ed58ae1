"""The ledger: canonical rows in one hash chain per tenant; pure."""
