"""The findings for people: tables of text, figures, and one HTML page."""
