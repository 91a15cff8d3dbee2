"""Results as text, JSON, HTML, Markdown, JUnit and metrics."""
