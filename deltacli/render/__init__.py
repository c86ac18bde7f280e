"""Results to text: table, tab-separated, json, jsonl, csv."""
