"""One module per paper: its tables, figures and trends, and how they are computed from our results."""
