"""Configuration texts: `key:value,key:value`; a value in brackets may hold commas."""

from __future__ import annotations


def split_conf(text: str) -> dict[str, str]:
    """Split a configuration into keys and values, in order; libpleat interprets them.

    Raises  ValueError for an entry without a colon, a key given twice, or brackets that do not
            match.
    """
    entries: dict[str, str] = {}
    depth = 0
    start = 0
    for at, mark in enumerate(text + ","):
        if mark == "[":
            depth += 1
        elif mark == "]":
            depth -= 1
        elif mark == "," and depth == 0:
            _add_entry(entries, text[start:at])
            start = at + 1
        if depth < 0:
            break
    if depth != 0:
        raise ValueError(f"brackets do not match in the configuration {text!r}")
    return entries


def _add_entry(entries: dict[str, str], text: str) -> None:
    if not text.strip():
        return
    key, colon, value = text.partition(":")
    key = key.strip()
    if not colon or not key:
        meant = text.strip().replace("=", ":", 1)
        hint = f": write {meant}" if "=" in text else ""
        raise ValueError(f"{text.strip()!r} is not key:value{hint}")
    if key in entries:
        raise ValueError(f"the key {key!r} is given twice")
    entries[key] = value.strip()


def join_conf(entries: dict[str, str]) -> str:
    """Join entries to a configuration text."""
    return ",".join(f"{key}:{value}" for key, value in entries.items())


def overlay(below: str, above: str) -> dict[str, str]:
    """Merge two configurations: entries of `above` replace entries of `below`, key by key."""
    return {**split_conf(below), **split_conf(above)}
