"""Tuning: chooses the forms and session options of a model by timing them on this machine."""
