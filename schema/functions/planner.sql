-- Planner settings, in one place. A function names its profile in the first line of its body (-- Planner: lookup). The
-- deployer applies this file after all other functions. README.md explains each profile.
DO $$
DECLARE
  v_profiles CONSTANT jsonb := '{
    "lookup": ["jit = off", "enable_seqscan = off"],
    "batch": ["jit = off", "enable_seqscan = off", "enable_bitmapscan = off", "enable_hashjoin = off",
      "enable_mergejoin = off", "enable_material = off", "plan_cache_mode = force_generic_plan"],
    "claim": ["jit = off", "enable_seqscan = off", "enable_bitmapscan = off", "enable_hashjoin = off",
      "enable_mergejoin = off", "enable_material = off", "enable_sort = off", "plan_cache_mode = force_generic_plan"],
    "ordered": ["jit = off", "enable_seqscan = off", "enable_bitmapscan = off", "enable_sort = off"],
    "seal": ["jit = off", "enable_seqscan = off", "enable_bitmapscan = off", "enable_sort = off",
      "plan_cache_mode = force_custom_plan"],
    "paid": ["jit = off", "enable_seqscan = off", "enable_bitmapscan = off", "enable_mergejoin = off",
      "enable_nestloop = off", "enable_hashjoin = on", "plan_cache_mode = force_generic_plan"]
  }';
  v_function record;
BEGIN
  FOR v_function IN
    SELECT p.oid::regprocedure AS name, substring(p.prosrc FROM '^\n-- Planner: (\w+)\n') AS profile
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = current_schema() AND p.prosrc ~ '^\n-- Planner: '
  LOOP
    IF v_profiles -> v_function.profile IS NULL THEN
      RAISE EXCEPTION '% names the planner profile %, which schema/functions/planner.sql does not have',
        v_function.name, v_function.profile
        USING ERRCODE = 'undefined_object';
    END IF;
    EXECUTE format('ALTER FUNCTION %s', v_function.name)
      || (SELECT string_agg(' SET ' || setting, '' ORDER BY place)
          FROM jsonb_array_elements_text(v_profiles -> v_function.profile) WITH ORDINALITY AS s(setting, place));
  END LOOP;
END
$$;
