-- Roles. No role can log in: logins of people and processes are members of the roles that they need. Roles belong to
-- the whole cluster, so a role is created only if it is missing. 011_privileges.sql lists the privileges of each role.

DO $$
DECLARE
  v_role text;
BEGIN
  FOREACH v_role IN ARRAY ARRAY[
    'symphony_owner',      -- owns every object; no session uses it at run time
    'symphony_control',    -- operators: holds, decisions, pauses
    'symphony_ingest',     -- applications that enqueue
    'symphony_executor',   -- workers
    'symphony_readonly',   -- dashboards: no payloads
    'symphony_auditor',    -- auditors: the whole ledger
    'symphony_auth'        -- the HTTP API: authenticates API keys, nothing else
  ]
  LOOP
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = v_role) THEN
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN NOINHERIT', v_role);
      EXCEPTION WHEN duplicate_object OR unique_violation THEN
        -- A concurrent deployment of this cluster created the role.
        NULL;
      END;
    END IF;
  END LOOP;
END
$$;
