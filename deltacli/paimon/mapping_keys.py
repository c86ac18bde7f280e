"""The keys by which Delta tells the ids of columns."""

MAPPING_MODE = "delta.columnMapping.mode"
MAX_ID = "delta.columnMapping.maxColumnId"
FIELD_ID = "delta.columnMapping.id"
PHYSICAL = "delta.columnMapping.physicalName"
