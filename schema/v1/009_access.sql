-- Keys of the HTTP API. A key is shown once, when it is created; the table stores the SHA-256 of its secret. The secret
-- has 256 bits of entropy, so a fast hash is enough.
--
-- Each scope uses one role: ingest symphony_ingest, read symphony_readonly, audit symphony_auditor, operate
-- symphony_control. The owner of the key is the actor of two-person decisions.

CREATE TABLE IF NOT EXISTS api_keys (
  key_id text PRIMARY KEY,
  secret_hash bytea NOT NULL,
  scopes text[] NOT NULL,
  owner text NOT NULL,
  participants text[],
  created_by text NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz,
  revoked_at timestamptz,
  revoked_by text,
  last_used_at timestamptz,
  CONSTRAINT api_keys_secret_is_a_sha256 CHECK (octet_length(secret_hash) = 32),
  CONSTRAINT api_keys_known_scopes
    CHECK (cardinality(scopes) > 0 AND scopes <@ ARRAY['ingest', 'read', 'audit', 'operate']),
  CONSTRAINT api_keys_bound_to_some_participant_or_to_none CHECK (cardinality(participants) > 0),
  CONSTRAINT api_keys_revoked_by_somebody CHECK (num_nonnulls(revoked_at, revoked_by) IN (0, 2))
);
COMMENT ON TABLE api_keys IS
  'Keys of the HTTP API, each with its scopes and its owner. Stores the hash of the secret, never the secret.';
COMMENT ON COLUMN api_keys.secret_hash IS 'SHA-256 of the secret half of the key.';
COMMENT ON COLUMN api_keys.owner IS
  'Person this key acts as. A two-person decision must be approved by a different person.';
COMMENT ON COLUMN api_keys.participants IS 'Participants that the key is restricted to; null means all.';
COMMENT ON COLUMN api_keys.last_used_at IS
  'Hour of the latest use. A finer time would make each request write this row.';

-- Sessions of people who signed in to the dashboard at an identity provider. The browser stores the secret in a
-- cookie; the table stores its SHA-256. A session is valid only for servers with the login that created it. A login
-- can create a session for any person. Without this rule, a login with few rights could create a session that a server
-- with more rights accepts.

CREATE TABLE IF NOT EXISTS browser_sessions (
  session_id text PRIMARY KEY,
  secret_hash bytea NOT NULL,
  scopes text[] NOT NULL,
  owner text NOT NULL,
  participants text[],
  issuer text NOT NULL,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  revoked_at timestamptz,
  revoked_by text,
  CONSTRAINT browser_sessions_secret_is_a_sha256 CHECK (octet_length(secret_hash) = 32),
  CONSTRAINT browser_sessions_known_scopes
    CHECK (cardinality(scopes) > 0 AND scopes <@ ARRAY['ingest', 'read', 'audit', 'operate']),
  CONSTRAINT browser_sessions_bound_to_some_participant_or_to_none CHECK (cardinality(participants) > 0),
  CONSTRAINT browser_sessions_last_at_most_8_hours CHECK (expires_at <= created_at + interval '8 hours'),
  CONSTRAINT browser_sessions_revoked_by_somebody CHECK (num_nonnulls(revoked_at, revoked_by) IN (0, 2))
);
COMMENT ON TABLE browser_sessions IS
  'Sessions of the dashboard, each with the person and the scopes of its sign-in. Rows older than 30 days are deleted.';
COMMENT ON COLUMN browser_sessions.secret_hash IS 'SHA-256 of the secret in the cookie.';
COMMENT ON COLUMN browser_sessions.owner IS
  'Person who signed in. A two-person decision must be approved by a different person.';
COMMENT ON COLUMN browser_sessions.participants IS 'Participants that the session is restricted to; null means all.';
COMMENT ON COLUMN browser_sessions.issuer IS 'Identity provider of the person.';
COMMENT ON COLUMN browser_sessions.created_by IS
  'Login of the server that created the session. Only servers with this login accept it.';

-- Data keys that encrypt fields of payloads, one per subject. A subject is a participant or a person. The table stores
-- each key wrapped under a master key that is never in the database, so a copy of the database alone decrypts nothing.
-- Destroying a subject's key makes its fields unreadable in every copy of the ciphertext, and changes no row of the
-- ledger.
--
-- The table is not append-only, because a key must be destroyable.

CREATE TABLE IF NOT EXISTS subject_keys (
  key_id uuid PRIMARY KEY,
  subject text NOT NULL,
  master_key_id text,
  wrapped_key text,
  created_at timestamptz NOT NULL,
  destroyed_at timestamptz,
  destroyed_by text,
  destroyed_because text,
  CONSTRAINT subject_keys_one_per_subject_for_ever UNIQUE (subject),
  CONSTRAINT subject_keys_wrapped_until_destroyed CHECK (
    num_nonnulls(master_key_id, wrapped_key) = CASE WHEN destroyed_at IS NULL THEN 2 ELSE 0 END),
  CONSTRAINT subject_keys_destroyed_by_somebody_for_a_reason CHECK (
    num_nonnulls(destroyed_at, destroyed_by, destroyed_because) IN (0, 3)),
  CONSTRAINT subject_keys_wrapped_key_is_60_bytes CHECK (wrapped_key COLLATE "C" ~ '^[A-Za-z0-9_-]{80}$')
);
COMMENT ON TABLE subject_keys IS
  'One data key per subject, wrapped under a master key outside the database; a destroyed key leaves its row.';
COMMENT ON COLUMN subject_keys.subject IS
  'Subject whose fields the key encrypts: a participant, or an id in payloads. Choose ids that do not identify a '
  'person.';
COMMENT ON COLUMN subject_keys.master_key_id IS 'Id of the master key that wraps the data key.';
COMMENT ON COLUMN subject_keys.wrapped_key IS
  'Nonce, encrypted key and tag of AES-256-GCM, in base64url; null once the key is destroyed.';
