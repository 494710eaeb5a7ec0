-- Typed memories with associations.
CREATE TABLE memories (
  id TEXT PRIMARY KEY, content TEXT NOT NULL, memory_type TEXT NOT NULL,
  importance REAL NOT NULL DEFAULT 0.5, created_at TIMESTAMP, updated_at TIMESTAMP,
  last_accessed_at TIMESTAMP, access_count INTEGER NOT NULL DEFAULT 0,
  source TEXT, channel_id TEXT, forgotten BOOLEAN NOT NULL DEFAULT 0
);
CREATE TABLE associations (
  id TEXT PRIMARY KEY, source_id TEXT NOT NULL, target_id TEXT NOT NULL,
  relation_type TEXT NOT NULL, weight REAL NOT NULL DEFAULT 0.5, created_at TIMESTAMP
);
INSERT INTO memories VALUES ('m1', 'Inga prefers the morning ferry', 'preference', 0.8, '2026-03-01 09:30:00', '2026-03-01 09:30:00', '2026-03-02 09:30:00', 4, 'user', 'c1', 0);
INSERT INTO memories VALUES ('m2', 'The ferry leaves at 7:10', 'fact', 0.5, '2026-03-01T09:31:00Z', NULL, NULL, 0, NULL, NULL, 0);
INSERT INTO memories VALUES ('m3', 'The ferry leaves at 7:00', 'fact', 0.5, '2026-02-01T09:31:00Z', NULL, NULL, 0, NULL, NULL, 1);
INSERT INTO associations VALUES ('a1', 'm1', 'm2', 'related_to', 0.9, NULL);
INSERT INTO associations VALUES ('a2', 'm2', 'gone', 'updates', 0.9, NULL);
