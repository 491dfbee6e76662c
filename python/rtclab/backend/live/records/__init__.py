"""What happened in a live call: from reports and packets to flows and to the tables of a trace."""
