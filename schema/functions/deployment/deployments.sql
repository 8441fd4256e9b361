-- Not SECURITY DEFINER: only the owner may call it, and only the installer acts as the owner.
CREATE OR REPLACE FUNCTION record_deployment(
  p_schema_level integer, p_release text, p_files text[], p_sha256 text[]
) RETURNS integer
LANGUAGE sql VOLATILE SET search_path FROM CURRENT
AS $$
  INSERT INTO symphony_deployments (deployment_no, file, sha256, schema_level, release, deployed_by, deployed_at)
  SELECT latest.deployment_no + 1, given.file, given.sha256, p_schema_level, p_release, session_user, clock_timestamp()
  FROM (SELECT COALESCE(max(d.deployment_no), 0) AS deployment_no FROM symphony_deployments d) AS latest
  CROSS JOIN unnest(p_files, p_sha256) AS given(file, sha256)
  RETURNING deployment_no
$$;
COMMENT ON FUNCTION record_deployment(integer, text, text[], text[]) IS
  'Installer: records one deployment and returns its number.';
