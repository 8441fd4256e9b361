-- Columns. The order is left out, because a migrated database has new columns at the end. NOT NULL is listed here and
-- not among the constraints, because only PostgreSQL 18 lists it there.
SELECT format('%s.%s', c.relname, a.attname) AS name, jsonb_build_object(
  'type', format_type(a.atttypid, a.atttypmod),
  'notNull', CASE
    WHEN NOT a.attnotnull THEN 'no'
    WHEN EXISTS (
      SELECT 1 FROM pg_constraint k
      WHERE k.conrelid = c.oid AND k.contype = 'n' AND a.attnum = ANY (k.conkey) AND NOT k.convalidated
    ) THEN 'not validated'
    ELSE 'yes' END,
  'default', CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid, true) END,
  'generated', CASE WHEN a.attgenerated <> '' THEN pg_get_expr(d.adbin, d.adrelid, true) END,
  'identity', CASE a.attidentity WHEN 'a' THEN 'always' WHEN 'd' THEN 'by default' END,
  'collation', (
    SELECT o.collname FROM pg_collation o JOIN pg_type t ON t.oid = a.atttypid
    WHERE o.oid = a.attcollation AND a.attcollation <> t.typcollation),
  'comment', col_description(c.oid, a.attnum)
) AS properties
FROM pg_attribute a
JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'c') AND a.attnum > 0
  AND NOT a.attisdropped
ORDER BY c.relname, a.attnum;
