-- The schema itself.
SELECT 'the schema' AS name, jsonb_build_object(
  'owner', pg_get_userbyid(n.nspowner),
  'comment', obj_description(n.oid, 'pg_namespace')
) AS properties
FROM pg_namespace n
WHERE n.nspname = current_schema();
