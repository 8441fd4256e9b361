-- Identifiers are UUIDs of version 7, so that an insert appends to the end of each index on them.

-- PostgreSQL 18 has uuidv7(). On older servers: 48 bits of milliseconds, then version, variant and random bits.
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
COMMENT ON FUNCTION uuid_v7() IS 'Returns a new UUID version 7, which sorts by creation time.';

CREATE OR REPLACE FUNCTION uuid_v7_floor(p_time timestamptz) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE
RETURN encode(overlay('\x00000000000000000000000000000000'::bytea PLACING
  substring(int8send((extract(epoch FROM p_time) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 'hex')::uuid;
COMMENT ON FUNCTION uuid_v7_floor(timestamptz) IS
  'Returns a UUID below every UUID version 7 of this millisecond or later.';
