"""Faults on purpose: processes killed, disks full, writers at the same time, damaged and random files.

`python -m tests.faults` tries all of them and writes the table in docs/reliability.md. The tests of this folder try a
few of each.
"""
