-- Constraints of tables and domains. NOT VALID marks a constraint that was added without a check of the existing rows.
SELECT format('%s.%s', COALESCE(c.relname, t.typname), k.conname) AS name, jsonb_build_object(
  'definition', pg_get_constraintdef(k.oid, true),
  'comment', obj_description(k.oid, 'pg_constraint')
) AS properties
FROM pg_constraint k
JOIN pg_namespace n ON n.oid = k.connamespace
LEFT JOIN pg_class c ON c.oid = k.conrelid
LEFT JOIN pg_type t ON t.oid = k.contypid
WHERE n.nspname = current_schema() AND k.contype NOT IN ('n', 't');
