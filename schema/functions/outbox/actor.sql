-- Returns the actor, which is never an argument. A login acts as itself. The owner lists gateway logins, such as that
-- of the HTTP API, in symphony_settings. A gateway acts as the owner of the API key in the setting symphony.api_key,
-- `<key id>:<hash in hex>`. SQL cannot verify a token of an identity provider. A gateway in naming_gateways may
-- therefore name a person in the setting symphony.actor. Each record then adds the login: `alice via web`.
-- The API key needs one of p_scopes.
CREATE OR REPLACE FUNCTION outbox_actor(p_scopes text[] DEFAULT '{operate}') RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_is_gateway boolean;
  v_may_name boolean;
  v_api_key text := current_setting('symphony.api_key', true);
  v_person text := current_setting('symphony.actor', true);
BEGIN
  SELECT session_user::text = ANY (s.actor_gateways), session_user::text = ANY (s.naming_gateways)
  INTO v_is_gateway, v_may_name FROM symphony_settings s;
  -- IS NOT TRUE: a null in the list, or a missing list, must not make every login a gateway.
  IF v_is_gateway IS NOT TRUE THEN
    RETURN session_user::text;
  END IF;
  IF v_api_key <> '' THEN
    RETURN outbox_actor_of_key(v_api_key, p_scopes);
  END IF;
  IF v_may_name IS NOT TRUE THEN
    RAISE EXCEPTION 'ACTOR_UNVERIFIED: the gateway % sent no API key of the actor', session_user
      USING ERRCODE = 'P7016', HINT = 'Act with an API key of scope operate. '
        'For people of an identity provider, recreate the login: symphony deploy --create-login NAME=api+names';
  END IF;
  IF NOT is_person_name(v_person) THEN
    PERFORM refuse_argument('symphony.actor',
      'the name of the actor, 1 to 200 characters, some visible, without space at either end, without " via "');
  END IF;
  RETURN v_person || ' via ' || session_user;
END
$$;
COMMENT ON FUNCTION outbox_actor(text[]) IS
  'Internal: returns the actor: the login, the owner of a gateway''s API key, or `NAME via LOGIN` of a naming gateway.';

CREATE OR REPLACE FUNCTION outbox_actor_of_key(p_api_key text, p_scopes text[]) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_key api_keys;
BEGIN
  -- Compares as text, because an error message of decode() would contain a digit of the hash.
  SELECT * INTO v_key FROM api_keys k
  WHERE k.key_id = split_part(p_api_key, ':', 1) AND encode(k.secret_hash, 'hex') = split_part(p_api_key, ':', 2);
  IF v_key.key_id IS NULL OR v_key.revoked_at IS NOT NULL OR v_key.expires_at <= clock_timestamp()
    OR NOT v_key.scopes && p_scopes
  THEN
    RAISE EXCEPTION 'ACTOR_UNVERIFIED: the API key of the actor is unknown, revoked, expired '
        'or without the scope %', array_to_string(p_scopes, ' or ')
      USING ERRCODE = 'P7016',
        HINT = format('Act with a valid API key of scope %s.', array_to_string(p_scopes, ' or '));
  END IF;
  RETURN v_key.owner;
END
$$;
COMMENT ON FUNCTION outbox_actor_of_key(text, text[]) IS
  'Internal: returns the owner of a valid API key with one of the scopes, or raises P7016.';

CREATE OR REPLACE FUNCTION is_actor_gateway(p_without_key boolean DEFAULT false) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
  SELECT COALESCE(session_user::text = ANY (s.actor_gateways)
    AND (NOT p_without_key OR session_user::text = ANY (s.naming_gateways)), false)
  FROM symphony_settings s
$$;
COMMENT ON FUNCTION is_actor_gateway(boolean) IS
  'Returns whether this login may act for people: with their API keys, or (p_without_key) by naming them.';

-- Not SECURITY DEFINER: only the owner may call it, and only the installer acts as the owner.
CREATE OR REPLACE FUNCTION set_actor_gateway(p_login text, p_names_people boolean) RETURNS void
LANGUAGE sql VOLATILE SET search_path FROM CURRENT
AS $$
  UPDATE symphony_settings s
  SET actor_gateways = array_append(array_remove(s.actor_gateways, p_login), p_login),
    naming_gateways = CASE
      WHEN p_names_people THEN array_append(array_remove(s.naming_gateways, p_login), p_login)
      ELSE array_remove(s.naming_gateways, p_login)
    END
$$;
COMMENT ON FUNCTION set_actor_gateway(text, boolean) IS
  'Installer: lets a login act for owners of API keys and, with p_names_people, for people of an identity provider.';
