"""Compares the simulation with live calls, and simulated TCP with the kernel's: ``rtclab validate``."""
