-- Rewrite rules: one of them could turn a write into nothing. A view's own definition is with the view.
SELECT format('%s.%s', c.relname, r.rulename) AS name, jsonb_build_object(
  'definition', pg_get_ruledef(r.oid, true)
) AS properties
FROM pg_rewrite r
JOIN pg_class c ON c.oid = r.ev_class
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND r.rulename <> '_RETURN';
