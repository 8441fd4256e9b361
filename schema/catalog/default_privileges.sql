-- Reads the default privileges (ALTER DEFAULT PRIVILEGES) of symphony_owner in general, and of any role in this schema.
SELECT format('%s created by %s %s',
  CASE d.defaclobjtype
    WHEN 'r' THEN 'tables' WHEN 'S' THEN 'sequences' WHEN 'f' THEN 'functions' WHEN 'T' THEN 'types' ELSE 'others' END,
  pg_get_userbyid(d.defaclrole), CASE d.defaclnamespace WHEN 0 THEN 'anywhere' ELSE 'in the schema' END) AS name,
  jsonb_build_object('grants', ARRAY(
    SELECT format('%s to %s', a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee) END)
    FROM aclexplode(d.defaclacl) AS a ORDER BY 1)) AS properties
FROM pg_default_acl d
LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace
WHERE n.nspname = current_schema()
  OR (d.defaclnamespace = 0 AND pg_get_userbyid(d.defaclrole) = 'symphony_owner');
