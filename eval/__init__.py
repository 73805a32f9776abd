"""Suites, metrics, statistics, figures and reports."""
