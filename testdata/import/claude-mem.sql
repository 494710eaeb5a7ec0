-- Observations, summaries, and prompts of claude-mem. Some columns are JSON arrays.
CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, sdk_session_id TEXT UNIQUE NOT NULL, project TEXT NOT NULL, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE observations (
  id INTEGER PRIMARY KEY AUTOINCREMENT, sdk_session_id TEXT NOT NULL, project TEXT NOT NULL, type TEXT, title TEXT, subtitle TEXT, narrative TEXT, text TEXT,
  facts TEXT, concepts TEXT, files_read TEXT, files_modified TEXT, prompt_number INTEGER, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL
);
CREATE TABLE session_summaries (
  id INTEGER PRIMARY KEY AUTOINCREMENT, sdk_session_id TEXT NOT NULL, project TEXT NOT NULL, request TEXT, investigated TEXT, learned TEXT, completed TEXT,
  next_steps TEXT, notes TEXT, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL
);
CREATE TABLE user_prompts (id INTEGER PRIMARY KEY AUTOINCREMENT, sdk_session_id TEXT NOT NULL, prompt_text TEXT NOT NULL, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE VIRTUAL TABLE observations_fts USING fts5(title, narrative);
INSERT INTO sdk_sessions VALUES (1, 'sdk-1', 'harbor', '2026-03-01T09:00:00.000Z', 1772355600000);
INSERT INTO observations VALUES (1, 'sdk-1', 'harbor', 'discovery', 'Tides are read from a file', 'The server caches it', 'The handler reads tides.csv once.', NULL, '["tides.csv has 700 rows","the cache never expires"]', '["how-it-works","gotcha"]', '["tides.csv"]', '[]', 1, '2026-03-01T09:30:00.000Z', 1772357400000);
INSERT INTO observations VALUES (2, 'sdk-1', 'harbor', 'change', 'Title alone', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 2, '2026-03-01T09:31:00.000Z', 1772357460000);
INSERT INTO session_summaries VALUES (1, 'sdk-1', 'harbor', 'Cache the tides', 'The handler', 'Reading is slow', 'A cache', 'An expiry', NULL, '2026-03-01T09:40:00.000Z', 1772358000000);
INSERT INTO user_prompts VALUES (1, 'sdk-1', 'cache the tides', '2026-03-01T09:01:00.000Z', 1772355660000);
