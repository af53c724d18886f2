"""Feed-forwards whose rows are padded by a cache line, where they lie a multiple of 4096 bytes apart."""
