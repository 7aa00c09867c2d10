"""Records: the typed result, cell identities, and where they lie on disk."""
