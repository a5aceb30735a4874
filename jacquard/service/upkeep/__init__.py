"""Keeps stores in order: health checks, and housekeeping by one process at a time, namely the process that holds the
lease (right to do the job).
"""
