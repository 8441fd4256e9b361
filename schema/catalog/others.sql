-- Other objects of the schema: operators, collations, statistics, text search, …
SELECT format('%s %s', i.type, COALESCE(i.name, i.identity)) AS name, jsonb_build_object() AS properties
FROM pg_depend d
JOIN pg_namespace n ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid
CROSS JOIN LATERAL pg_identify_object(d.classid, d.objid, 0) AS i
WHERE n.nspname = current_schema() AND d.deptype = 'n' AND d.classid NOT IN (
  'pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass, 'pg_constraint'::regclass,
  'pg_default_acl'::regclass);
