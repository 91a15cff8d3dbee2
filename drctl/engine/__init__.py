"""Explains, executes, rolls back and resumes plans: drctl's own and those of runbooks."""
