-- Observations, sessions, and prompts of Engram.
CREATE TABLE sessions (id TEXT PRIMARY KEY, project TEXT NOT NULL, directory TEXT NOT NULL, started_at TEXT NOT NULL, ended_at TEXT, summary TEXT);
CREATE TABLE observations (
  id INTEGER PRIMARY KEY AUTOINCREMENT, sync_id TEXT, session_id TEXT NOT NULL, type TEXT NOT NULL, title TEXT NOT NULL, content TEXT NOT NULL,
  tool_name TEXT, project TEXT, scope TEXT NOT NULL DEFAULT 'project', topic_key TEXT, normalized_hash TEXT,
  revision_count INTEGER NOT NULL DEFAULT 1, duplicate_count INTEGER NOT NULL DEFAULT 1, last_seen_at TEXT, pinned INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL, updated_at TEXT NOT NULL, deleted_at TEXT
);
CREATE TABLE user_prompts (id INTEGER PRIMARY KEY AUTOINCREMENT, sync_id TEXT, session_id TEXT NOT NULL, content TEXT NOT NULL, project TEXT, created_at TEXT NOT NULL);
CREATE VIRTUAL TABLE observations_fts USING fts5(title, content);
CREATE TABLE sync_chunks (target_key TEXT, chunk_id TEXT, imported_at TEXT);
INSERT INTO sessions VALUES ('s-1', 'harbor', '/src/harbor', '2026-03-01 09:00:00', NULL, 'Moved the tide table to one package.');
INSERT INTO sessions VALUES ('s-2', 'harbor', '/src/harbor', '2026-03-02 09:00:00', NULL, NULL);
INSERT INTO observations VALUES (1, 'obs-aa01', 's-1', 'decision', 'Tide table in one package', 'What: one package.' || char(10) || 'Why: two copies differed.', NULL, 'harbor', 'project', 'architecture/tide-table', 'h1', 2, 1, NULL, 1, '2026-03-01 09:30:00', '2026-03-01 09:40:00', NULL);
INSERT INTO observations VALUES (2, 'obs-aa02', 's-1', 'bugfix', 'Off by one hour', 'The table used local time.', 'bash', 'harbor', 'personal', NULL, 'h2', 1, 1, NULL, 0, '2026-03-01 10:30:00', '2026-03-01 10:30:00', NULL);
INSERT INTO observations VALUES (3, 'obs-aa03', 's-1', 'manual', 'Withdrawn', 'No longer true.', NULL, 'harbor', 'project', NULL, 'h3', 1, 1, NULL, 0, '2026-03-01 11:30:00', '2026-03-01 11:30:00', '2026-03-02 08:00:00');
INSERT INTO user_prompts VALUES (1, NULL, 's-1', 'merge the tide tables', 'harbor', '2026-03-01 09:10:00');
