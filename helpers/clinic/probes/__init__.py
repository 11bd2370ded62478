"""One small module per family of probes; ``examine`` runs them in order."""
