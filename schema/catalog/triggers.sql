-- Triggers, and when each fires. "always" includes sessions in replica mode.
SELECT format('%s.%s', c.relname, t.tgname) AS name, jsonb_build_object(
  'definition', pg_get_triggerdef(t.oid, true),
  'enabled', CASE t.tgenabled
    WHEN 'A' THEN 'always' WHEN 'O' THEN 'origin' WHEN 'R' THEN 'replica' WHEN 'D' THEN 'disabled' END,
  'comment', obj_description(t.oid, 'pg_trigger')
) AS properties
FROM pg_trigger t
JOIN pg_class c ON c.oid = t.tgrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND NOT t.tgisinternal;
