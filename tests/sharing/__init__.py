"""Tests of Delta Sharing."""
