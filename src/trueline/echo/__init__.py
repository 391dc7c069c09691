"""Adaptive filters on sound."""
