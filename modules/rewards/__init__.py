"""Rewards: functions that score images."""
