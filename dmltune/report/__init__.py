"""What people see of a search: the table while it runs, plain lines in a log, the summary, the picture."""
