//! Protects real files with shards: seal, verify, heal, unseal.
