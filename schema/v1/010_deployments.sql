-- What was deployed here, by whom and when: one row per file of each deployment, kept for ever. The latest deployment
-- is what this schema holds now; `symphony deploy` compares its checksums with those of the release at hand.

CREATE TABLE IF NOT EXISTS symphony_deployments (
  deployment_no integer NOT NULL,
  file text NOT NULL,
  sha256 text NOT NULL,
  schema_level integer NOT NULL,
  release text NOT NULL,
  deployed_by text NOT NULL,
  deployed_at timestamptz NOT NULL,
  PRIMARY KEY (deployment_no, file),
  CONSTRAINT symphony_deployments_sha256_is_hexadecimal CHECK (sha256 ~ '^[0-9a-f]{64}$')
);
COMMENT ON TABLE symphony_deployments IS 'Every deployment of this schema, file by file. The highest number is in force.';
COMMENT ON COLUMN symphony_deployments.schema_level IS
  'Raised when a release changes the schema in a way that an older one must not undo.';

-- Not a definer: only the owner may call it, and only the installer acts as the owner.
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
COMMENT ON FUNCTION record_deployment(integer, text, text[], text[]) IS 'Installer: writes down one deployment, and returns its number.';

CREATE OR REPLACE TRIGGER symphony_deployments_is_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON symphony_deployments
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE symphony_deployments ENABLE ALWAYS TRIGGER symphony_deployments_is_append_only;
