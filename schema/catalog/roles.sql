-- Our roles, their attributes and memberships, and the members of the owner. Since PostgreSQL 16 a membership may lack
-- both SET and INHERIT; such a member can only grant the role and is left out.
SELECT r.rolname AS name, jsonb_build_object(
  'login', r.rolcanlogin,
  'superuser', r.rolsuper,
  'inherit', r.rolinherit,
  'createRole', r.rolcreaterole,
  'createDatabase', r.rolcreatedb,
  'replication', r.rolreplication,
  'bypassRowSecurity', r.rolbypassrls,
  'settings', ARRAY(SELECT unnest(s.setconfig) FROM pg_db_role_setting s WHERE s.setrole = r.oid ORDER BY 1),
  'memberOf', ARRAY(SELECT pg_get_userbyid(m.roleid) FROM pg_auth_members m WHERE m.member = r.oid ORDER BY 1),
  'members', ARRAY(
    SELECT DISTINCT pg_get_userbyid(m.member)::text FROM pg_auth_members m
    WHERE r.rolname = 'symphony_owner' AND m.roleid = r.oid
      AND (COALESCE((to_jsonb(m) ->> 'set_option')::boolean, true)
        OR COALESCE((to_jsonb(m) ->> 'inherit_option')::boolean, true))
    ORDER BY 1)
) AS properties
FROM pg_roles r
WHERE r.rolname IN ('symphony_owner', 'symphony_control', 'symphony_ingest', 'symphony_executor', 'symphony_readonly',
  'symphony_auditor', 'symphony_auth');
