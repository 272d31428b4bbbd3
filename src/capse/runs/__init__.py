"""Run folders, atomic writes, strict settings and the record of where a result comes from."""
