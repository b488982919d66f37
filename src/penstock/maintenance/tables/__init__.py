"""What is done to one Delta table as a whole so that removed rows are gone from storage: rewrite, removal, log truncation.

Needs the table's exclusive lease. Knows Delta's format, and no kind of dataset.
"""
