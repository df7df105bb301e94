"""Paired, resumable experiments that answer: did my robot agent really get better?"""
