"""What goes on by itself while an engine is open."""
