-- Deletes old sessions, and all but the newest 99 of this person, so that the table stays small. A deleted session is
-- invalid.
CREATE OR REPLACE FUNCTION create_browser_session(
  p_key_id text, p_secret_hash bytea, p_scopes text[], p_person text, p_issuer text, p_session_seconds integer,
  p_participants text[] DEFAULT NULL
) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  v_expires_at timestamptz;
BEGIN
  PERFORM check_api_key(p_key_id, p_secret_hash, p_scopes, p_person, p_participants, NULL);
  IF NOT is_short_text(p_issuer, 255) THEN
    PERFORM refuse_argument('p_issuer', 'the identity provider, 1 to 255 characters');
  END IF;
  IF p_session_seconds IS NULL OR p_session_seconds NOT BETWEEN 60 AND 28800 THEN
    PERFORM refuse_argument('p_session_seconds', '60 to 28800');
  END IF;
  v_expires_at := v_now + make_interval(secs => p_session_seconds);
  DELETE FROM browser_sessions s
  WHERE s.created_at < v_now - interval '30 days' OR s.session_id IN (
    SELECT o.session_id FROM browser_sessions o WHERE o.owner = p_person ORDER BY o.created_at DESC OFFSET 99);
  INSERT INTO browser_sessions (
    session_id, secret_hash, scopes, owner, participants, issuer, created_by, created_at, expires_at)
  VALUES (p_key_id, p_secret_hash, p_scopes, p_person, p_participants, p_issuer, session_user, v_now, v_expires_at)
  ON CONFLICT (session_id) DO NOTHING;
  IF NOT FOUND THEN
    PERFORM refuse_argument('p_key_id', 'an id that no session has used');
  END IF;
  RETURN v_expires_at;
END
$$;
COMMENT ON FUNCTION create_browser_session(text, bytea, text[], text, text, integer, text[]) IS
  'Creates a session of the dashboard from the hash of its secret and returns its expiry, at most 8 hours from now.';

-- Returns no row for an unknown session, a wrong secret, or a session that another PostgreSQL
-- login created.
CREATE OR REPLACE FUNCTION authenticate_browser_session(p_key_id text, p_secret_hash bytea)
RETURNS TABLE (
  status text, scopes text[], owner text, participants text[], issuer text, expires_at timestamptz
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
BEGIN
  PERFORM check_api_key_parts(p_key_id, p_secret_hash);
  RETURN QUERY SELECT
    CASE WHEN s.revoked_at IS NOT NULL THEN 'REVOKED'
      WHEN s.expires_at <= clock_timestamp() THEN 'EXPIRED' ELSE 'ACTIVE' END,
    s.scopes, s.owner, s.participants, s.issuer, s.expires_at
  FROM browser_sessions s
  WHERE s.session_id = p_key_id AND s.secret_hash = p_secret_hash AND s.created_by = session_user;
END
$$;
COMMENT ON FUNCTION authenticate_browser_session(text, bytea) IS
  'Returns status, scopes, owner and participants of the session with this secret hash that this login created.';

CREATE OR REPLACE FUNCTION end_browser_session(p_key_id text, p_secret_hash bytea) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
BEGIN
  PERFORM check_api_key_parts(p_key_id, p_secret_hash);
  UPDATE browser_sessions s SET revoked_at = clock_timestamp(), revoked_by = s.owner
  WHERE s.session_id = p_key_id AND s.secret_hash = p_secret_hash AND s.created_by = session_user
    AND s.revoked_at IS NULL;
  RETURN FOUND;
END
$$;
COMMENT ON FUNCTION end_browser_session(text, bytea) IS
  'Ends the session with this secret hash, for a person who signs out; returns false if there is none to end.';

CREATE OR REPLACE FUNCTION revoke_browser_session(p_session_id text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_actor text := outbox_actor();
BEGIN
  IF p_session_id IS NULL OR NOT EXISTS (SELECT 1 FROM browser_sessions s WHERE s.session_id = p_session_id) THEN
    PERFORM refuse_argument('p_session_id', 'the id of a session');
  END IF;
  UPDATE browser_sessions s SET revoked_at = clock_timestamp(), revoked_by = v_actor
  WHERE s.session_id = p_session_id AND s.revoked_at IS NULL;
  RETURN FOUND;
END
$$;
COMMENT ON FUNCTION revoke_browser_session(text) IS
  'Revokes a session permanently; returns false if it was already revoked.';
