"""Where the core meets a store, a clock and chance: fetch, decide, commit.

verbs.py (what a doorway offers), batch.py (joins concurrent callers), carry.py (the one loop),
receive.py (claims and waits), log.py (the event log), engine.py (all of it together).
"""
