-- Rewrite rules: a rule could discard a write. The rule of a view is listed with the view.
SELECT format('%s.%s', c.relname, r.rulename) AS name, jsonb_build_object(
  'definition', pg_get_ruledef(r.oid, true)
) AS properties
FROM pg_rewrite r
JOIN pg_class c ON c.oid = r.ev_class
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND r.rulename <> '_RETURN';
