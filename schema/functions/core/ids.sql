-- Identifiers: UUID version 7, so that new rows land at the right-hand edge of every index on them.

-- PostgreSQL 18 brings its own generator; before it, ours: 48 bits of milliseconds, then version, variant and randomness.
DO $$
BEGIN
  IF current_setting('server_version_num')::integer >= 180000 THEN
    CREATE OR REPLACE FUNCTION uuid_v7() RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN pg_catalog.uuidv7();
  ELSE
    CREATE OR REPLACE FUNCTION uuid_v7() RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN encode(
      set_bit(set_bit(
        overlay(uuid_send(gen_random_uuid()) PLACING
          substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        52, 1), 53, 1), 'hex')::uuid;
  END IF;
END
$$;
COMMENT ON FUNCTION uuid_v7() IS 'A new UUID version 7: ordered by time of creation.';
