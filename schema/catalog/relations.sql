-- Tables, views, sequences and all other relations.
SELECT c.relname AS name, jsonb_build_object(
  'type', CASE c.relkind
    WHEN 'r' THEN 'table' WHEN 'p' THEN 'partitioned table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view'
    WHEN 'S' THEN 'sequence' WHEN 'f' THEN 'foreign table' WHEN 'c' THEN 'composite type' END,
  'owner', pg_get_userbyid(c.relowner),
  'persistence', CASE c.relpersistence WHEN 'p' THEN 'permanent' WHEN 'u' THEN 'unlogged' WHEN 't' THEN 'temporary' END,
  'options', ARRAY(SELECT o FROM unnest(c.reloptions) AS o ORDER BY o),
  'rowSecurity', CASE WHEN c.relforcerowsecurity THEN 'forced' WHEN c.relrowsecurity THEN 'on' ELSE 'off' END,
  'parents', ARRAY(SELECT i.inhparent::regclass::text FROM pg_inherits i WHERE i.inhrelid = c.oid ORDER BY 1),
  'children', ARRAY(SELECT i.inhrelid::regclass::text FROM pg_inherits i WHERE i.inhparent = c.oid ORDER BY 1),
  'definition', CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid, true) END,
  'sequence', (
    SELECT format('%s from %s by %s, %s to %s, cache %s%s', format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement,
      s.seqmin, s.seqmax, s.seqcache, CASE WHEN s.seqcycle THEN ', cycling' END)
    FROM pg_sequence s WHERE s.seqrelid = c.oid),
  'comment', obj_description(c.oid, 'pg_class')
) AS properties
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f', 'c');
