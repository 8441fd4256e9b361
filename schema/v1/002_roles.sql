-- The roles. None of them can log in: people and processes log in as themselves and are members of what they need.
-- Roles belong to the whole cluster, so they are created only if missing, and two databases may be deployed at once.
-- What each role may do is said on one page, 011_privileges.sql.

DO $$
DECLARE
  v_role text;
BEGIN
  FOREACH v_role IN ARRAY ARRAY[
    'symphony_owner',      -- owns every object; nobody logs in as it, nobody switches to it at run time
    'symphony_control',    -- operators: holds, decisions, pauses
    'symphony_ingest',     -- applications that enqueue
    'symphony_executor',   -- workers
    'symphony_readonly',   -- dashboards: no payloads
    'symphony_auditor',    -- auditors: the whole ledger
    'symphony_auth'        -- the HTTP API, to ask whose key it was shown; nothing else
  ]
  LOOP
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = v_role) THEN
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN NOINHERIT', v_role);
      EXCEPTION WHEN duplicate_object OR unique_violation THEN
        -- Another deployment of this cluster made it a moment ago.
        NULL;
      END;
    END IF;
  END LOOP;
END
$$;
