"""Policies: a callable in this process, a model server in this process, a model server elsewhere.

Like the workers they run in, these modules need Python 3.10, numpy and, for a server, the
packages of the extra `policy`; no pydantic.
"""
