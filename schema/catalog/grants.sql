-- Privileges, one row per privilege, object and role; the columns of a table share a row. An object without an ACL has
-- the default one (acldefault), by which PUBLIC may execute a new function. The owner's own privileges are left out;
-- a privilege that was revoked from the owner is listed. MAINTAIN is ignored, because servers before 17 lack it.
WITH object AS (
  SELECT n.oid AS schema_oid, 'the schema' AS name, n.nspowner AS owner, NULL::text AS column_name,
    n.nspacl AS acl, acldefault('n', n.nspowner) AS default_acl
  FROM pg_namespace n
  UNION ALL
  SELECT c.relnamespace, CASE c.relkind WHEN 'S' THEN 'sequence ' ELSE 'table ' END || c.relname, c.relowner, NULL,
    c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner)
  FROM pg_class c WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
  UNION ALL
  SELECT c.relnamespace, 'table ' || c.relname, c.relowner, a.attname, a.attacl, acldefault('c', c.relowner)
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE NOT a.attisdropped
  UNION ALL
  SELECT p.pronamespace, format('function %s(%s)', p.proname, oidvectortypes(p.proargtypes)), p.proowner, NULL,
    p.proacl, acldefault('f', p.proowner)
  FROM pg_proc p
  UNION ALL
  SELECT t.typnamespace, 'type ' || t.typname, t.typowner, NULL, t.typacl, acldefault('T', t.typowner)
  FROM pg_type t WHERE t.typrelid = 0 AND t.typcategory <> 'A'
), ours AS (
  SELECT o.* FROM object o JOIN pg_namespace n ON n.oid = o.schema_oid WHERE n.nspname = current_schema()
), given AS (
  SELECT o.name, o.column_name, a.privilege_type,
    CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee) END
      || CASE WHEN a.is_grantable THEN ' with grant option' ELSE '' END AS grantee
  FROM ours o
  CROSS JOIN LATERAL aclexplode(COALESCE(o.acl, o.default_acl)) AS a
  WHERE a.grantee <> o.owner
), taken AS (
  SELECT o.name, d.privilege_type
  FROM ours o
  CROSS JOIN LATERAL aclexplode(o.default_acl) AS d
  WHERE d.grantee = o.owner AND d.privilege_type <> 'MAINTAIN' AND o.acl IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM aclexplode(o.acl) AS a WHERE a.grantee = o.owner AND a.privilege_type = d.privilege_type)
)
SELECT format('%s on %s%s to %s', g.privilege_type, CASE WHEN g.column_name IS NOT NULL THEN 'columns of ' END, g.name,
    g.grantee) AS name,
  jsonb_build_object('columns', COALESCE(
    array_agg(g.column_name ORDER BY g.column_name) FILTER (WHERE g.column_name IS NOT NULL), '{}')) AS properties
FROM given g
GROUP BY g.privilege_type, g.name, g.column_name IS NOT NULL, g.grantee
UNION ALL
SELECT format('%s on %s taken from its owner', t.privilege_type, t.name), '{}' FROM taken t;
