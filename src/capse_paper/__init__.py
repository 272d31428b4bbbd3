"""The CapsE paper's tables, figures and claims, beside what was recorded here; `capse reproduce` shows them.

plans -> recorded -> findings -> report, and jobs that make what a plan lacks. `capse` never imports this package.
"""
