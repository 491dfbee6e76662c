"""The browsers of live calls: how they are started and driven, what they play, and the pages of rtclab."""
