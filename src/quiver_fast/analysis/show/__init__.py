"""A measurement for people: text, terminal, pages, plots."""
