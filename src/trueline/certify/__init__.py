"""What a result proves: plain records, the status that advises, and the arithmetic of gaps and bounds."""
