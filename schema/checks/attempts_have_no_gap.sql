-- The attempts of an item are numbered 1, 2, 3 … without a gap. Examines the newest symphony.examined_items items, or
-- all if the setting is empty.
SELECT i.outbox_id::text AS object, format('attempts 1 to %s', count(*)) AS expected,
  format('numbers from %s to %s', min(a.attempt_no), max(a.attempt_no)) AS found
FROM (
  SELECT d.outbox_id FROM payment_outbox_identities d
  ORDER BY d.outbox_id DESC LIMIT NULLIF(current_setting('symphony.examined_items', true), '')::bigint
) i
JOIN payment_outbox_attempts a ON a.outbox_id = i.outbox_id
GROUP BY i.outbox_id
HAVING min(a.attempt_no) <> 1 OR max(a.attempt_no) <> count(*)
LIMIT 20;
