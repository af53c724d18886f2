"""Sites, canonicalisation, fused forms, targets, the pipeline and its report."""
