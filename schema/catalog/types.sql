-- Enums, domains and ranges. The row type of a table is listed with the table.
SELECT t.typname AS name, jsonb_build_object(
  'type', CASE t.typtype WHEN 'e' THEN 'enum' WHEN 'd' THEN 'domain' WHEN 'r' THEN 'range' ELSE 'type' END,
  'owner', pg_get_userbyid(t.typowner),
  'labels', (
    SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder)
    FROM pg_enum e WHERE e.enumtypid = t.oid),
  'base', CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod) END,
  'comment', obj_description(t.oid, 'pg_type')
) AS properties
FROM pg_type t
JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE n.nspname = current_schema() AND t.typrelid = 0 AND t.typcategory <> 'A' AND t.typtype <> 'm';
