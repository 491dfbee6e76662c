"""Programs that build or measure rtclab and are no part of it. Run them at the top of the repository.

``python -m tools.bench``
    benchmarks of whole commands, of the emulator and of a live call; ``make bench`` runs it
``python -m tools.instructions``
    instructions and cache misses of simulations, against limits; ``make instructions`` runs it
``python -m tools.clip_sizes``
    measures what the clip of live calls costs as VP8, for the simulated encoder
"""
