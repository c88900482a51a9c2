"""Identity, signatures, TLS contexts, trust and rate limits; no HTTP."""
