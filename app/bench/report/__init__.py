"""Results for people: Markdown, SVG and one HTML page that needs nothing else."""
