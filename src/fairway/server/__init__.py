"""Fairway over HTTP.

routes.py (the one table of calls), wire.py (what the public sees), problems.py (errors as replies),
app.py (the application and what guards it), serve.py (the process).
"""
