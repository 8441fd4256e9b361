-- The guard of every ledger table.

-- Statement level, because a row-level trigger lets TRUNCATE and an UPDATE of no row through. The tables that use it
-- say ENABLE ALWAYS after each CREATE OR REPLACE TRIGGER (which resets it), so that replica mode is no way around.
CREATE OR REPLACE FUNCTION refuse_mutation() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT
AS $$
BEGIN
  RAISE EXCEPTION 'append-only: % of table % is refused', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'P0001', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
      HINT = 'History is never rewritten. A correction is a further row.';
END
$$;
COMMENT ON FUNCTION refuse_mutation() IS 'Trigger: raises P0001 for any UPDATE, DELETE or TRUNCATE it is attached to.';
