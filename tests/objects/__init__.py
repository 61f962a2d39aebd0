"""Tests of folders and files in object storage."""
