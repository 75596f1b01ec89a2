"""Workloads that are timed, and their reports."""
