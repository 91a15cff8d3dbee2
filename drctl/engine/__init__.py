"""Explains, carries out, rolls back and resumes plans, whatever built them."""
