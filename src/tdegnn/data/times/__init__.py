"""Times: read them from text, find their step, and find their seasons."""
