"""The lessons in JupyterLab: shown from the learner's own files, and as alive as in marimo."""
