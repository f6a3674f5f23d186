"""Results as text, tables, figures and pages: of a running search, its end, checks and papers' tables."""
