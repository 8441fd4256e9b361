-- Leases: one holder of a named resource at a time, with a fencing token that only grows.
--
--   symphony_leases        one row per resource that was ever acquired: holder, expiry and latest token
--   symphony_lease_floor   one row: the highest token of all removed lease rows
--
-- A lease is held while it has a lease_id and has not expired. If its holder crashes, it expires, and another owner can
-- acquire it.
--
-- A lease has two identifiers. The fencing token is a number, not a secret: a system that receives writes of holders
-- compares it and refuses an earlier holder. The lease_id is known to the holder only and is required to renew and to
-- release. With one identifier for both, any reader of the token could release the lease. A holder that missed the
-- answer to a renewal would not know the new token and would lose the lease.

-- Tables --------------------------------------------------------------------------------------------------------------

-- The primary key is the only index, so that a renewal is a HOT update. Only the purge searches by time; it may scan.
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
COMMENT ON TABLE symphony_leases IS 'One row per resource: its current or last holder, and its latest fencing token.';
COMMENT ON COLUMN symphony_leases.lease_id IS
  'Secret of the holder, new with each acquire; null once released. No role can read it.';
COMMENT ON COLUMN symphony_leases.fencing_token IS
  'Grows with each acquire and renewal of the resource, across owners and releases. Not a secret.';
COMMENT ON COLUMN symphony_leases.expires_at IS
  'Time at which the lease expires, by the clock of this server; once released, the time of the release.';
COMMENT ON COLUMN symphony_leases.context IS 'Note of the holder for other readers. Symphony does not read it.';
COMMENT ON COLUMN symphony_leases.floor_seen IS
  'Token in symphony_lease_floor at the latest acquire. The floor never falls, except by a restore without its row: '
  'symphony doctor reports a floor below this token.';

CREATE TABLE IF NOT EXISTS symphony_lease_floor (
  singleton boolean PRIMARY KEY DEFAULT true,
  fencing_token bigint NOT NULL DEFAULT 0,
  CONSTRAINT symphony_lease_floor_is_one_row CHECK (singleton)
);
INSERT INTO symphony_lease_floor DEFAULT VALUES ON CONFLICT DO NOTHING;
COMMENT ON TABLE symphony_lease_floor IS
  'Highest token of all removed lease rows. A resource without a row gets its next token above it.';

-- Triggers ------------------------------------------------------------------------------------------------------------

-- TRUNCATE would reset the tokens, and other systems would accept writes of earlier holders again.
CREATE OR REPLACE TRIGGER symphony_leases_is_not_truncated
  BEFORE TRUNCATE ON symphony_leases
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE symphony_leases ENABLE ALWAYS TRIGGER symphony_leases_is_not_truncated;

CREATE OR REPLACE TRIGGER symphony_lease_floor_is_not_truncated
  BEFORE TRUNCATE ON symphony_lease_floor
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE symphony_lease_floor ENABLE ALWAYS TRIGGER symphony_lease_floor_is_not_truncated;
