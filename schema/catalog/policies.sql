-- Row security policies: a policy could hide rows from a function.
SELECT format('%s.%s', c.relname, p.polname) AS name, jsonb_build_object(
  'command', p.polcmd,
  'permissive', p.polpermissive,
  'roles', ARRAY(
    SELECT CASE o WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(o) END FROM unnest(p.polroles) AS o ORDER BY 1),
  'using', pg_get_expr(p.polqual, p.polrelid, true),
  'check', pg_get_expr(p.polwithcheck, p.polrelid, true)
) AS properties
FROM pg_policy p
JOIN pg_class c ON c.oid = p.polrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema();
