"""Clients of the clouds' buckets, one for each cloud."""
