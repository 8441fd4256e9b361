-- Functions and procedures. A placeholder replaces the name of the schema in a search path, so that installations in
-- two schemas have equal rows.
SELECT format('%s(%s)', p.proname, oidvectortypes(p.proargtypes)) AS name, jsonb_build_object(
  'type', CASE p.prokind
    WHEN 'f' THEN 'function' WHEN 'p' THEN 'procedure' WHEN 'a' THEN 'aggregate' WHEN 'w' THEN 'window function' END,
  'owner', pg_get_userbyid(p.proowner),
  'arguments', pg_get_function_arguments(p.oid),
  'result', pg_get_function_result(p.oid),
  'language', l.lanname,
  'volatility', CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' WHEN 'v' THEN 'volatile' END,
  'parallel', CASE p.proparallel WHEN 's' THEN 'safe' WHEN 'r' THEN 'restricted' WHEN 'u' THEN 'unsafe' END,
  'strict', p.proisstrict,
  'leakproof', p.proleakproof,
  'securityDefiner', p.prosecdef,
  'settings', ARRAY(
    SELECT replace(s, 'search_path=' || quote_ident(current_schema()) || ',', 'search_path=<schema>,')
    FROM unnest(p.proconfig) AS s ORDER BY s),
  'body', COALESCE(pg_get_function_sqlbody(p.oid), p.prosrc),
  'comment', obj_description(p.oid, 'pg_proc')
) AS properties
FROM pg_proc p
JOIN pg_namespace n ON n.oid = p.pronamespace
JOIN pg_language l ON l.oid = p.prolang
WHERE n.nspname = current_schema();
