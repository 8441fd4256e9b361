-- Deployments: one row per file of each deployment, never removed. The latest deployment describes the schema in force;
-- `symphony deploy` compares its checksums with those of its own release.

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
COMMENT ON TABLE symphony_deployments IS
  'Every deployment of this schema, file by file. The highest number is in force.';
COMMENT ON COLUMN symphony_deployments.schema_level IS
  'Level of the schema. An older release refuses a database with a higher level.';

CREATE OR REPLACE TRIGGER symphony_deployments_is_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON symphony_deployments
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_mutation();
ALTER TABLE symphony_deployments ENABLE ALWAYS TRIGGER symphony_deployments_is_append_only;
