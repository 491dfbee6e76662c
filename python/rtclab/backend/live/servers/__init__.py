"""The servers of live calls: signalling, TURN, SFUs and MCUs."""
