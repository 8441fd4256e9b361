-- Functions that a trigger or a CHECK of a table calls. All other functions are in schema/functions.

-- Append-only tables use statement-level triggers, because a row-level trigger does not fire for TRUNCATE or for an
-- UPDATE of no row. CREATE OR REPLACE TRIGGER resets ENABLE ALWAYS, so each table sets it again. Otherwise a session
-- in replica mode would skip the trigger.
CREATE OR REPLACE FUNCTION refuse_mutation() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT
AS $$
BEGIN
  RAISE EXCEPTION 'append-only: % of table % is refused', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'P0001', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
      HINT = 'Append a new row instead of changing an existing one.';
END
$$;
COMMENT ON FUNCTION refuse_mutation() IS 'Trigger: raises P0001, so that the statement that fired it fails.';

-- Two-person decisions compare people by this key. The function removes differences in invisible characters, Unicode
-- form (NFKC), letter case and runs of spaces. ICU's root locale folds case in the same way in every database. Letters
-- of two scripts that look alike (Latin a, Cyrillic a) stay different. The gateway's login after a name (`alice via
-- web`, see outbox_actor) is removed.
CREATE OR REPLACE FUNCTION person_key(p_name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN split_part(btrim(regexp_replace(
  normalize(lower(upper(
    normalize(regexp_replace(p_name COLLATE "C",
      '[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164'
      '\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]',
      '', 'g'), NFKC)
    COLLATE "und-x-icu") COLLATE "und-x-icu"), NFKC) COLLATE "C",
  '[ \t\n\r\u1680\u2028\u2029]+', ' ', 'g')), ' via ', 1);
COMMENT ON FUNCTION person_key(text) IS
  'Returns a person''s name for comparison: NFKC, case folded, without invisible characters, repeated spaces and the '
  'gateway.';
