-- Inserts in the order of the subjects, so that two batches cannot deadlock. An existing key is returned unchanged and
-- the offered one is dropped, so that two producers of a new subject get the same key.
CREATE OR REPLACE FUNCTION ensure_subject_keys(
  p_subjects text[], p_data_key_ids uuid[], p_wrapped_keys text[], p_master_key_id text
) RETURNS TABLE (subject text, key_id uuid, master_key_id text, wrapped_key text, destroyed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
BEGIN
  IF is_id_list(p_subjects) IS NOT TRUE
    OR (SELECT count(DISTINCT s.subject) FROM unnest(p_subjects) AS s(subject)) < cardinality(p_subjects)
  THEN
    PERFORM refuse_argument('p_subjects', 'a plain list of 1 to 1000 ids, each once');
  END IF;
  PERFORM check_wrapped_keys(p_data_key_ids, p_wrapped_keys, p_master_key_id);
  IF cardinality(p_data_key_ids) <> cardinality(p_subjects) THEN
    PERFORM refuse_argument('p_data_key_ids', 'one key id for each subject');
  END IF;
  INSERT INTO subject_keys (key_id, subject, master_key_id, wrapped_key, created_at)
  SELECT g.key_id, g.subject, p_master_key_id, g.wrapped_key, clock_timestamp()
  FROM unnest(p_subjects, p_data_key_ids, p_wrapped_keys) AS g(subject, key_id, wrapped_key)
  ORDER BY g.subject COLLATE "C"
  ON CONFLICT DO NOTHING;
  RETURN QUERY
  SELECT k.subject, k.key_id, k.master_key_id, k.wrapped_key, k.destroyed_at IS NOT NULL
  FROM subject_keys k WHERE k.subject = ANY (p_subjects);
END
$$;
COMMENT ON FUNCTION ensure_subject_keys(text[], uuid[], text[], text) IS
  'Returns the wrapped keys of subjects; stores the offered key for a subject without one. Reports a destroyed key and '
  'does not replace it.';

CREATE OR REPLACE FUNCTION check_wrapped_keys(p_data_key_ids uuid[], p_wrapped_keys text[], p_master_key_id text)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  IF is_id_list(p_data_key_ids::text[]) IS NOT TRUE
    OR (SELECT count(DISTINCT k.id) FROM unnest(p_data_key_ids) AS k(id)) < cardinality(p_data_key_ids)
  THEN
    PERFORM refuse_argument('p_data_key_ids', 'a plain list of 1 to 1000 ids, each once');
  END IF;
  IF is_id_list(p_wrapped_keys) IS NOT TRUE OR cardinality(p_wrapped_keys) <> cardinality(p_data_key_ids)
    OR (SELECT bool_or(w.wrapped COLLATE "C" !~ '^[A-Za-z0-9_-]{80}$') FROM unnest(p_wrapped_keys) AS w(wrapped))
  THEN
    PERFORM refuse_argument('p_wrapped_keys', 'a plain list, one for each key, each of 60 bytes in base64url');
  END IF;
  IF NOT is_id(p_master_key_id) THEN
    PERFORM refuse_argument('p_master_key_id', 'the id of a master key');
  END IF;
END
$$;
COMMENT ON FUNCTION check_wrapped_keys(uuid[], text[], text) IS
  'Internal: raises 22023 unless ids, wrapped keys and master key id are well-formed.';

CREATE OR REPLACE FUNCTION read_subject_keys(p_data_key_ids uuid[])
RETURNS TABLE (subject text, key_id uuid, master_key_id text, wrapped_key text, destroyed boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
BEGIN
  IF is_id_list(p_data_key_ids::text[]) IS NOT TRUE THEN
    PERFORM refuse_argument('p_data_key_ids', 'a plain list of 1 to 1000 ids');
  END IF;
  RETURN QUERY
  SELECT k.subject, k.key_id, k.master_key_id, k.wrapped_key, k.destroyed_at IS NOT NULL
  FROM subject_keys k WHERE k.key_id = ANY (p_data_key_ids);
END
$$;
COMMENT ON FUNCTION read_subject_keys(uuid[]) IS
  'Returns the wrapped keys with these ids, which a payload refers to. Unwrapping them needs the master key.';

CREATE OR REPLACE FUNCTION master_keys_in_use() RETURNS TABLE (master_key_id text, keys bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
  SELECT k.master_key_id, count(*) FROM subject_keys k WHERE k.destroyed_at IS NULL GROUP BY k.master_key_id
$$;
COMMENT ON FUNCTION master_keys_in_use() IS
  'Returns the master keys that wrap data keys, with the number of data keys. A process needs all of them to start.';

-- The condition on the previous master key lets only one of two concurrent rewraps change a key.
CREATE OR REPLACE FUNCTION rewrap_subject_keys(
  p_data_key_ids uuid[], p_wrapped_keys text[], p_master_key_id text, p_previous_master_key_id text
) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_rewrapped integer;
BEGIN
  PERFORM outbox_actor();
  PERFORM check_wrapped_keys(p_data_key_ids, p_wrapped_keys, p_master_key_id);
  IF NOT is_id(p_previous_master_key_id) THEN
    PERFORM refuse_argument('p_previous_master_key_id', 'the id of a master key');
  END IF;
  UPDATE subject_keys k SET master_key_id = p_master_key_id, wrapped_key = g.wrapped_key
  FROM unnest(p_data_key_ids, p_wrapped_keys) AS g(key_id, wrapped_key)
  WHERE k.key_id = g.key_id AND k.master_key_id = p_previous_master_key_id;
  GET DIAGNOSTICS v_rewrapped = ROW_COUNT;
  RETURN v_rewrapped;
END
$$;
COMMENT ON FUNCTION rewrap_subject_keys(uuid[], text[], text, text) IS
  'Stores data keys wrapped under another master key and returns the number of keys. Encrypted fields do not change.';

CREATE OR REPLACE FUNCTION destroy_subject_key(p_subject text, p_reason text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
BEGIN
  IF NOT is_id(p_subject) THEN
    PERFORM refuse_argument('p_subject', 'the id of a subject');
  END IF;
  IF NOT is_short_text(p_reason, 1000) THEN
    PERFORM refuse_argument('p_reason', 'a reason of 1 to 1000 characters');
  END IF;
  UPDATE subject_keys k
  SET master_key_id = NULL, wrapped_key = NULL,
    destroyed_at = clock_timestamp(), destroyed_by = v_actor, destroyed_because = p_reason
  WHERE k.subject = p_subject AND k.destroyed_at IS NULL;
  IF FOUND THEN
    RETURN 'DESTROYED';
  END IF;
  RETURN CASE WHEN EXISTS (SELECT 1 FROM subject_keys k WHERE k.subject = p_subject)
    THEN 'ALREADY_DESTROYED' ELSE 'UNKNOWN' END;
END
$$;
COMMENT ON FUNCTION destroy_subject_key(text, text) IS
  'Destroys the key of a subject permanently: its encrypted fields become unreadable. Returns DESTROYED, '
  'ALREADY_DESTROYED or UNKNOWN.';
