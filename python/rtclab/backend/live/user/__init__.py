"""What users bring to live calls: pages, servers and scripts of their own, and invited browsers."""
