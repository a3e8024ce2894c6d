"""Tables of experiments: frames, comparisons with the paper, and their text in Markdown, LaTeX and HTML."""
