"""Where records are kept. Read contract.py first; it is all that a store has to know."""
