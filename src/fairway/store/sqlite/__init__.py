"""The embedded store: one SQLite file, shared by the processes of one machine.

schema.py (tables, opening), rows.py (records as rows), reads.py, writes.py (what is read and written),
writer.py (the thread that commits), store.py (the verbs of the contract).
"""
