-- Strict input: the limits that each function checks first. libs/core has the same limits. A refusal raises 22023 and
-- names the argument, never its value, which may be a payload or a secret.

CREATE OR REPLACE FUNCTION refuse_argument(p_argument text, p_expected text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT
AS $$
BEGIN
  RAISE EXCEPTION '%: expected %', p_argument, p_expected USING ERRCODE = '22023';
END
$$;
COMMENT ON FUNCTION refuse_argument(text, text) IS 'Raises 22023 with the name of an argument and the expected value.';

-- Ids are printable ASCII without spaces: logs print them, people type them, and comparison is bytewise.
CREATE OR REPLACE FUNCTION is_id(p_value text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN p_value IS NOT NULL AND octet_length(p_value) <= 128 AND p_value COLLATE "C" ~ '^[!-~]+$';
COMMENT ON FUNCTION is_id(text) IS 'Returns true for 1 to 128 printable ASCII characters.';

-- Text of a person or a rail. Line ends and tabs are allowed.
CREATE OR REPLACE FUNCTION is_short_text(p_value text, p_length_max integer) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN p_value IS NOT NULL AND char_length(p_value) <= p_length_max
  AND (p_value COLLATE "C" ~ '^[!-~]+$' OR (
    p_value ~ '\S' AND p_value COLLATE "C" !~ '[\u0001-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]'));
COMMENT ON FUNCTION is_short_text(text, integer) IS
  'Returns true for text of bounded length, not blank, without control characters other than line ends and tabs.';

-- Checks of single arguments, which PostgreSQL inlines. claim_outbox_batch and check_outbox_leases use IF instead,
-- which is faster still.
CREATE OR REPLACE FUNCTION check_id(p_argument text, p_value text) RETURNS void
LANGUAGE sql VOLATILE
RETURN CASE WHEN NOT is_id(p_value)
  THEN refuse_argument(p_argument, '1 to 128 printable ASCII characters without spaces') END;
COMMENT ON FUNCTION check_id(text, text) IS 'Internal: raises 22023 unless the value is an id.';

CREATE OR REPLACE FUNCTION check_number(p_argument text, p_value bigint, p_least bigint, p_most bigint) RETURNS void
LANGUAGE sql VOLATILE
RETURN CASE WHEN p_value IS NULL OR p_value < p_least OR p_value > p_most
  THEN refuse_argument(p_argument, format('%s to %s', p_least, p_most)) END;
COMMENT ON FUNCTION check_number(text, bigint, bigint, bigint) IS
  'Internal: raises 22023 unless the value is in range.';

CREATE OR REPLACE FUNCTION check_text(p_argument text, p_value text, p_length_max integer) RETURNS void
LANGUAGE sql VOLATILE
RETURN CASE WHEN NOT is_short_text(p_value, p_length_max)
  THEN refuse_argument(p_argument, format('text of 1 to %s characters', p_length_max)) END;
COMMENT ON FUNCTION check_text(text, text, integer) IS 'Internal: raises 22023 unless the value is short text.';

CREATE OR REPLACE FUNCTION check_time(p_argument text, p_value timestamptz) RETURNS void
LANGUAGE sql VOLATILE
RETURN CASE WHEN p_value IS NULL OR p_value < now() - interval '100 years' OR p_value > now() + interval '100 years'
  THEN refuse_argument(p_argument, 'a time within 100 years of now') END;
COMMENT ON FUNCTION check_time(text, timestamptz) IS
  'Internal: raises 22023 unless the time is within 100 years of now.';

-- A name without visible characters, or with space at an end, could be mistaken for another name. ` via ` is
-- refused, because outbox_actor puts it between a name and the login of a gateway.
CREATE OR REPLACE FUNCTION is_person_name(p_value text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN is_short_text(p_value, 200) AND p_value !~ '^[[:space:]]|[[:space:]]$' AND person_key(p_value) <> ''
  AND strpos(p_value, ' via ') = 0;
COMMENT ON FUNCTION is_person_name(text) IS
  'Returns true for 1 to 200 characters, some of them visible, without space at either end and without " via ".';

-- Ids of other systems: any printable text, bounded, not blank, no control characters. The list of blank characters is
-- explicit, because character classes depend on the locale of the database.
CREATE OR REPLACE FUNCTION is_inbox_id(p_value text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN p_value IS NOT NULL AND char_length(p_value) <= 255
  AND p_value COLLATE "C" ~ '[^ \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]'
  AND p_value COLLATE "C" !~ '[\u0001-\u001f\u007f-\u009f]';
COMMENT ON FUNCTION is_inbox_id(text) IS
  'Returns true for 1 to 255 characters, not all of them blank, none of them a control character.';

-- W3C Trace Context: a traceparent of version 00, then optionally a space and a tracestate. The headers are untrusted
-- and no payment depends on them, so an invalid context becomes null.
CREATE OR REPLACE FUNCTION trace_context_or_null(p_value text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
  WHEN octet_length(p_value) <= 568
    AND p_value COLLATE "C" ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}( [!-~][ -~]*)?$'
    -- The standard forbids ids of zeros.
    AND p_value COLLATE "C" !~ '^00-(0{32}|.{33}0{16})'
  THEN p_value
END;
COMMENT ON FUNCTION trace_context_or_null(text) IS 'Returns the trace context, or null if it is invalid.';

-- A list must be one-dimensional with the lower bound 1, so that subscripts and unnest() see the same elements. The
-- body has no subquery, so that PostgreSQL inlines it. In the values joined with `!`, a legal id character, one regex
-- finds any illegal character. In the values joined with a space, a run of 129 non-spaces is an id that is too long.
CREATE OR REPLACE FUNCTION is_id_list(p_values text[]) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
-- Not BETWEEN, which PostgreSQL prints as a nested AND and parses again as a flat one: a dump and restore would change
-- the body.
RETURN cardinality(p_values) >= 1 AND cardinality(p_values) <= 1000
  AND array_dims(p_values) = format('[1:%s]', cardinality(p_values))
  AND num_nulls(VARIADIC p_values) = 0 AND '' <> ALL (p_values)
  AND array_to_string(p_values, '!') COLLATE "C" !~ '[^!-~]'
  AND (octet_length(array_to_string(p_values, '')) <= 128 OR array_to_string(p_values, ' ') COLLATE "C" !~ '[^ ]{129}');
COMMENT ON FUNCTION is_id_list(text[]) IS 'Returns true for a plain list of 1 to 1000 ids.';

-- A rail reads numbers as doubles, so a number that no double represents would reach it changed. Numbers of at most 15
-- significant digits are always exact, of more than 17 never. For 16 and 17 digits the function computes the output of
-- JavaScript: the shortest decimal that reads as the double. Of several shortest ones JavaScript takes the nearest, and
-- of two equally near the one with an even last digit. The arithmetic uses numeric, because the text of a float8
-- depends on extra_float_digits.
CREATE OR REPLACE FUNCTION is_double_number(p_number numeric) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_number numeric := abs(p_number);
  v_digits text := btrim(replace(v_number::text, '.', ''), '0');
  v_bits bigint;
  v_exponent integer;
  v_mantissa bigint;
  -- Values are multiplied by v_scale, so that a quarter of the distance between two doubles is a whole number.
  v_scale numeric;
  v_quarter numeric;
  v_double numeric;
  v_lowest numeric;
  v_highest numeric;
  v_unit numeric;
  v_shorter numeric;
  v_is_closed boolean;
  v_distance numeric;
BEGIN
  IF length(v_digits) NOT BETWEEN 16 AND 17 THEN
    RETURN length(v_digits) < 16;
  END IF;
  v_bits := ('x' || encode(float8send(v_number::float8), 'hex'))::bit(64)::bigint;
  v_exponent := (v_bits >> 52) - 1075;
  v_mantissa := (v_bits & 4503599627370495) + 4503599627370496;
  v_scale := 2::numeric ^ GREATEST(0, 2 - v_exponent);
  v_quarter := 2::numeric ^ GREATEST(0, v_exponent - 2);
  v_double := 4 * v_mantissa * v_quarter;
  -- Below a power of two the distance between doubles is half of that above it.
  v_lowest := v_double - CASE WHEN v_mantissa = 4503599627370496 THEN v_quarter ELSE 2 * v_quarter END;
  v_highest := v_double + 2 * v_quarter;
  -- A decimal halfway between two doubles reads as the one with the even mantissa, so v_lowest and v_highest count too.
  v_is_closed := v_mantissa % 2 = 0;
  v_unit := v_number / v_digits::numeric * v_scale;
  v_number := v_number * v_scale;

  v_shorter := v_highest - mod(v_highest, 10 * v_unit);
  IF NOT v_is_closed AND v_shorter = v_highest THEN
    v_shorter := v_shorter - 10 * v_unit;
  END IF;
  IF v_shorter > v_lowest OR (v_is_closed AND v_shorter = v_lowest) THEN
    RETURN false;
  END IF;

  v_distance := abs(v_number - v_double);
  RETURN NOT EXISTS (
    SELECT 1 FROM (VALUES (v_number - v_unit), (v_number + v_unit)) AS other(number)
    WHERE (other.number > v_lowest OR (v_is_closed AND other.number = v_lowest))
      AND (other.number < v_highest OR (v_is_closed AND other.number = v_highest))
      AND (abs(other.number - v_double) < v_distance
        OR (abs(other.number - v_double) = v_distance AND v_digits ~ '[13579]$')));
END
$$;
COMMENT ON FUNCTION is_double_number(numeric) IS
  'Returns whether JavaScript prints the double nearest to this number with the same value.';

-- A separate function, because PostgreSQL does not inline a function with a subquery: payload_defect has none, and
-- calls this function only for a payload with numbers. One array collects the numbers, because jsonb_path_query takes
-- quadratic time. CASE refuses a large or long number before is_double_number produces its digits.
CREATE OR REPLACE FUNCTION has_inexact_number(p_payload jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN EXISTS (
  SELECT 1
  FROM jsonb_array_elements(jsonb_path_query_array(p_payload, 'strict $.** ? (@.type() == "number")')) AS found(number)
  WHERE CASE WHEN abs(found.number::numeric) >= 1e21 OR scale(found.number::numeric) > 20 THEN true
    ELSE NOT is_double_number(found.number::numeric) END);
COMMENT ON FUNCTION has_inexact_number(jsonb) IS
  'Returns true if the payload contains a number that a double cannot represent.';

-- Finds 16 digits after a colon, comma or bracket, where jsonb prints numbers. Strings of digits, such as account
-- numbers, follow a quote and do not match. A match inside a string only costs a second check.
CREATE OR REPLACE FUNCTION shows_long_number(p_text text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN p_text COLLATE "C" ~ '[:,[] ?-?([0-9][.]?){16}';
COMMENT ON FUNCTION shows_long_number(text) IS
  'Returns true if the text of JSON values may hold a number of 16 digits or more.';

-- Most payloads are small, and their text shows neither a long number nor 33 brackets, so they need no other check.
-- is_plain_payload_text takes the text as an argument, because an inlined SQL function would compute it for each use.
CREATE OR REPLACE FUNCTION small_payload_text(p_payload jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN pg_column_size(p_payload) <= 1024 AND jsonb_typeof(p_payload) = 'object' THEN p_payload::text END;
COMMENT ON FUNCTION small_payload_text(jsonb) IS
  'Returns the text of a payload of at most 1 KiB; null for a larger one, or one that is no object.';

-- Uses replace(), because translate() is slower.
CREATE OR REPLACE FUNCTION count_open_brackets(p_text text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN octet_length(p_text) - octet_length(replace(replace(p_text, '{', ''), '[', ''));
COMMENT ON FUNCTION count_open_brackets(text) IS
  'Returns the number of opening brackets and braces in the text of a JSON value, strings included.';

CREATE OR REPLACE FUNCTION is_plain_payload_text(p_text text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN COALESCE(NOT shows_long_number(p_text) AND count_open_brackets(p_text) <= 32, false);
COMMENT ON FUNCTION is_plain_payload_text(text) IS
  'Returns true for the text of a small payload that needs no further check.';

-- Only a payload of at most 1 KiB is converted to text before its numbers are checked (small_payload_text). The numbers
-- of a larger one are checked in binary form first: a thousand numbers 1e131071 are 16 KB of storage and 131 MB of
-- text.
--
-- Storage is at most four times the text: in the worst case, a one-digit number has 3 bytes of text and 12 of storage.
-- So a payload above 512 KiB of storage has more than 64 KiB of text, and is refused without a conversion.
CREATE OR REPLACE FUNCTION payload_defect(p_payload jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE
  WHEN p_payload IS NULL OR jsonb_typeof(p_payload) <> 'object' THEN 'a JSON object'
  WHEN pg_column_size(p_payload) > 524288 THEN 'a JSON object of at most 65536 bytes'
  WHEN is_plain_payload_text(small_payload_text(p_payload)) THEN NULL
  WHEN jsonb_path_exists(p_payload, 'strict $.**{32 to last} ? (@.type() == "object" || @.type() == "array")')
    THEN 'a JSON object nested at most 32 deep'
  WHEN jsonb_path_exists(p_payload, 'lax $.** ? (@.type() == "number")') AND has_inexact_number(p_payload)
    THEN 'numbers below 10^21 with at most 20 decimals that a double holds without loss (write others as strings)'
  WHEN octet_length(p_payload::text) > 65536 THEN 'a JSON object of at most 65536 bytes'
END;
COMMENT ON FUNCTION payload_defect(jsonb) IS
  'Returns the rule that a payload breaks, as text for an error message; null if it is valid.';
