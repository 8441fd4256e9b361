-- The login must be a member of the role of each scope. A key of scope operate belongs to the login that creates it, so
-- that one login cannot act as two people. A gateway creates no key of scope operate, because it could invent a person.
-- These rules do not bind an administrator, who can act as the owner of the schema.
CREATE OR REPLACE FUNCTION create_api_key(
  p_key_id text, p_secret_hash bytea, p_scopes text[], p_person text, p_participants text[] DEFAULT NULL,
  p_expires_at timestamptz DEFAULT NULL
) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
  v_now timestamptz := clock_timestamp();
  v_missing text;
BEGIN
  PERFORM check_api_key(p_key_id, p_secret_hash, p_scopes, p_person, p_participants, p_expires_at);
  IF NOT pg_has_role(session_user, 'symphony_owner', 'MEMBER') THEN
    SELECT s.scope INTO v_missing FROM unnest(p_scopes) AS s(scope)
    WHERE NOT pg_has_role(session_user, api_scope_role(s.scope), 'MEMBER') LIMIT 1;
    IF v_missing IS NOT NULL THEN
      RAISE EXCEPTION 'a key of scope %: this login is not a member of %',
          v_missing, api_scope_role(v_missing)
        USING ERRCODE = 'insufficient_privilege',
          HINT = 'Create the key with a login that has this role, or as an administrator.';
    END IF;
    IF 'operate' = ANY (p_scopes) AND is_actor_gateway() THEN
      RAISE EXCEPTION 'a key of scope operate: the gateway % may not create one', session_user
        USING ERRCODE = 'insufficient_privilege', HINT = 'Create the key as an administrator.';
    END IF;
    IF 'operate' = ANY (p_scopes) AND p_person <> v_actor THEN
      RAISE EXCEPTION 'a key of scope operate: % may create one only for themselves', v_actor
        USING ERRCODE = 'insufficient_privilege',
          HINT = 'With the key of another person, one login could approve its own proposals. '
            'An administrator may create the key.';
    END IF;
  END IF;
  INSERT INTO api_keys (key_id, secret_hash, scopes, owner, participants, created_by, created_at, expires_at)
  VALUES (p_key_id, p_secret_hash, p_scopes, p_person, p_participants, v_actor, v_now, p_expires_at)
  ON CONFLICT (key_id) DO NOTHING;
  IF NOT FOUND THEN
    PERFORM refuse_argument('p_key_id', 'an id that no key has used');
  END IF;
  RETURN v_now;
END
$$;
COMMENT ON FUNCTION create_api_key(text, bytea, text[], text, text[], timestamptz) IS
  'Creates a key of the HTTP API from the hash of its secret. The login must have the role of each scope.';

CREATE OR REPLACE FUNCTION check_api_key(
  p_key_id text, p_secret_hash bytea, p_scopes text[], p_person text, p_participants text[], p_expires_at timestamptz
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  PERFORM check_api_key_parts(p_key_id, p_secret_hash);
  IF is_id_list(p_scopes) IS NOT TRUE OR NOT p_scopes <@ ARRAY['ingest', 'read', 'audit', 'operate']
    OR (SELECT count(DISTINCT s.scope) FROM unnest(p_scopes) AS s(scope)) < cardinality(p_scopes)
  THEN
    PERFORM refuse_argument('p_scopes', 'some of ingest, read, audit, operate, each once');
  END IF;
  IF NOT is_person_name(p_person) THEN
    PERFORM refuse_argument('p_person',
      'a person, of 1 to 200 characters, some visible, without space at either end, without " via "');
  END IF;
  IF p_participants IS NOT NULL AND (is_id_list(p_participants) IS NOT TRUE OR cardinality(p_participants) > 100
    OR (SELECT count(DISTINCT g.id) FROM unnest(p_participants) AS g(id)) < cardinality(p_participants))
  THEN
    PERFORM refuse_argument('p_participants', 'null, or a plain list of 1 to 100 participants, each once');
  END IF;
  IF p_expires_at <= clock_timestamp() OR p_expires_at > clock_timestamp() + interval '100 years' THEN
    PERFORM refuse_argument('p_expires_at', 'null, or a time within the next 100 years');
  END IF;
END
$$;
COMMENT ON FUNCTION check_api_key(text, bytea, text[], text, text[], timestamptz) IS
  'Internal: raises 22023 for the first invalid argument of create_api_key.';

CREATE OR REPLACE FUNCTION check_api_key_parts(p_key_id text, p_secret_hash bytea) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  IF p_key_id IS NULL OR p_key_id COLLATE "C" !~ '^[a-z0-9]{8,32}$' THEN
    PERFORM refuse_argument('p_key_id', '8 to 32 lower-case letters and digits');
  END IF;
  IF octet_length(p_secret_hash) IS DISTINCT FROM 32 THEN
    PERFORM refuse_argument('p_secret_hash', 'a SHA-256, of 32 bytes');
  END IF;
END
$$;
COMMENT ON FUNCTION check_api_key_parts(text, bytea) IS
  'Internal: raises 22023 unless id and hash are well-formed.';

CREATE OR REPLACE FUNCTION api_scope_role(p_scope text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE p_scope
  WHEN 'ingest' THEN 'symphony_ingest'
  WHEN 'read' THEN 'symphony_readonly'
  WHEN 'audit' THEN 'symphony_auditor'
  WHEN 'operate' THEN 'symphony_control'
END;
COMMENT ON FUNCTION api_scope_role(text) IS 'Internal: returns the role of a scope of the HTTP API.';

CREATE OR REPLACE FUNCTION revoke_api_key(p_key_id text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_actor text := outbox_actor();
BEGIN
  IF p_key_id IS NULL OR NOT EXISTS (SELECT 1 FROM api_keys k WHERE k.key_id = p_key_id) THEN
    PERFORM refuse_argument('p_key_id', 'the id of a key');
  END IF;
  UPDATE api_keys k SET revoked_at = clock_timestamp(), revoked_by = v_actor
  WHERE k.key_id = p_key_id AND k.revoked_at IS NULL;
  RETURN FOUND;
END
$$;
COMMENT ON FUNCTION revoke_api_key(text) IS 'Revokes a key permanently; returns false if it was already revoked.';

-- Returns no row for an unknown key or a wrong secret. Returns the status of a revoked or expired key, because the
-- caller knows its secret.
CREATE OR REPLACE FUNCTION authenticate_api_key(p_key_id text, p_secret_hash bytea)
RETURNS TABLE (status text, scopes text[], owner text, participants text[], expires_at timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_key api_keys;
  v_now timestamptz := clock_timestamp();
  v_hour timestamptz := date_trunc('hour', v_now, 'UTC');
BEGIN
  PERFORM check_api_key_parts(p_key_id, p_secret_hash);
  SELECT * INTO v_key FROM api_keys k WHERE k.key_id = p_key_id AND k.secret_hash = p_secret_hash;
  IF v_key.key_id IS NULL THEN
    RETURN;
  END IF;
  IF v_key.revoked_at IS NULL AND (v_key.expires_at > v_now) IS NOT FALSE
    AND v_key.last_used_at IS DISTINCT FROM v_hour
  THEN
    -- SKIP LOCKED: a concurrent request writes the same value or revokes the key, and this request need not wait.
    UPDATE api_keys k SET last_used_at = v_hour
    WHERE k.key_id = (SELECT l.key_id FROM api_keys l WHERE l.key_id = p_key_id FOR UPDATE SKIP LOCKED);
  END IF;
  RETURN QUERY SELECT
    CASE WHEN v_key.revoked_at IS NOT NULL THEN 'REVOKED'
      WHEN v_key.expires_at <= v_now THEN 'EXPIRED' ELSE 'ACTIVE' END,
    v_key.scopes, v_key.owner, v_key.participants, v_key.expires_at;
END
$$;
COMMENT ON FUNCTION authenticate_api_key(text, bytea) IS
  'Returns status, scopes, owner and participants of the key with this secret hash; records the hour of use.';
