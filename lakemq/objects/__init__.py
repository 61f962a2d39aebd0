"""Folders and files in object storage, named and read as those of a disk are."""
