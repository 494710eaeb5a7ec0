-- The memory of walrus-sqlite: a key, a value, and JSON metadata.
CREATE TABLE memories (
  key TEXT PRIMARY KEY, value TEXT NOT NULL, metadata TEXT,
  created_at INTEGER NOT NULL, accessed_at INTEGER NOT NULL,
  access_count INTEGER NOT NULL DEFAULT 0, embedding BLOB
);
CREATE VIRTUAL TABLE memories_fts USING fts5(key, value);
INSERT INTO memories VALUES ('ferry', 'The ferry leaves at 7:10.', '{"mood":"calm","tags":["travel","sea"]}', 1772357400, 1772357401, 3, x'0001');
INSERT INTO memories VALUES ('tea/green', 'Green tea at 75 °C.' || char(10) || 'Two minutes.', NULL, 1772357460, 1772357461, 0, NULL);
INSERT INTO memories VALUES ('empty', '', NULL, 1772357470, 0, 0, NULL);
