-- Indexes, including those of constraints. An index whose build failed is listed as not valid.
SELECT format('%s.%s', c.relname, i.relname) AS name, jsonb_build_object(
  'definition', pg_get_indexdef(i.oid, 0, true),
  'valid', x.indisvalid AND x.indisready AND x.indislive,
  'comment', obj_description(i.oid, 'pg_class')
) AS properties
FROM pg_index x
JOIN pg_class i ON i.oid = x.indexrelid
JOIN pg_class c ON c.oid = x.indrelid
JOIN pg_namespace n ON n.oid = i.relnamespace
WHERE n.nspname = current_schema();
