"""What Fairway decides, without doing it: records and `now` in, decisions out.

Nothing here awaits, reads a clock, draws a random number or touches a file. Read in this order:
records, lifecycle, topics, send, claim, settle, lapse, retry, events, settings, limits, errors.
"""
