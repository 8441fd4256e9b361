-- Leases: one holder of a named resource at a time, with a number that only grows.
--
--   symphony_leases        one row per resource that was ever acquired: who has it, until when, and the latest token
--   symphony_lease_floor   one row: the highest token of any row that was removed since
--
-- A lease is held while it has a lease_id and has not expired. Nobody has to notice an expiry: the next acquire does. A
-- crash of the holder leaves a row that expires; a crash of the server leaves what was committed.
--
-- Two different things identify a lease. The fencing token is a number that the holder hands to whatever it writes to, so
-- that a later holder's writes win; it is no secret. The lease_id is known to the holder alone, and is what renews and
-- releases. Were the token the fence, everybody who may read it could act, and a renewal whose answer was lost would have
-- cost its holder the lease.

-- Tables --------------------------------------------------------------------------------------------------------------

-- No index beside the key, so that a renewal is a HOT update; the one search by time, of retention, may scan.
CREATE TABLE IF NOT EXISTS symphony_leases (
  resource text PRIMARY KEY,
  owner text NOT NULL,
  lease_id uuid,
  fencing_token bigint NOT NULL,
  acquired_at timestamptz NOT NULL,
  renewed_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  released_at timestamptz,
  context jsonb NOT NULL DEFAULT '{}',
  floor_seen bigint NOT NULL DEFAULT 0,
  CONSTRAINT symphony_leases_token_not_negative CHECK (fencing_token >= 0),
  CONSTRAINT symphony_leases_context_is_object CHECK (jsonb_typeof(context) = 'object'),
  CONSTRAINT symphony_leases_either_granted_or_released CHECK (num_nonnulls(lease_id, released_at) = 1)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
COMMENT ON TABLE symphony_leases IS 'One row per resource: its holder, or who held it last, and the token to count on from.';
COMMENT ON COLUMN symphony_leases.lease_id IS
  'The fence: made anew by each acquire, known to that holder alone; null once released. No role can read it.';
COMMENT ON COLUMN symphony_leases.fencing_token IS
  'Grows with each acquire and renewal of the resource, across owners and releases. Not a secret: holders show it to others.';
COMMENT ON COLUMN symphony_leases.expires_at IS 'Until when it is held, by this server''s clock; once released, since when it is free.';
COMMENT ON COLUMN symphony_leases.context IS 'What the holder wants others to know of it. Nothing here reads it.';
COMMENT ON COLUMN symphony_leases.floor_seen IS
  'Token of symphony_lease_floor at the latest acquire. The floor only grows, so the doctor finds a lost one by this column.';

CREATE TABLE IF NOT EXISTS symphony_lease_floor (
  singleton boolean PRIMARY KEY DEFAULT true,
  fencing_token bigint NOT NULL DEFAULT 0,
  CONSTRAINT symphony_lease_floor_is_one_row CHECK (singleton)
);
INSERT INTO symphony_lease_floor DEFAULT VALUES ON CONFLICT DO NOTHING;
COMMENT ON TABLE symphony_lease_floor IS
  'The highest token of any lease row that was removed: a resource that is acquired as if for the first time counts on from it.';

-- Triggers ------------------------------------------------------------------------------------------------------------

-- With the rows the tokens would be forgotten, and holders of former ones could write again.
CREATE OR REPLACE TRIGGER symphony_leases_is_not_truncated
  BEFORE TRUNCATE ON symphony_leases
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE symphony_leases ENABLE ALWAYS TRIGGER symphony_leases_is_not_truncated;

CREATE OR REPLACE TRIGGER symphony_lease_floor_is_not_truncated
  BEFORE TRUNCATE ON symphony_lease_floor
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE symphony_lease_floor ENABLE ALWAYS TRIGGER symphony_lease_floor_is_not_truncated;
