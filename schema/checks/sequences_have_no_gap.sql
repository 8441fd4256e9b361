-- The items of a participant are numbered 1, 2, 3 … without a gap. Examines the participants of the newest
-- symphony.examined_items items, or all if the setting is empty.
SELECT i.participant_id AS object, format('items 1 to %s', count(*)) AS expected,
  format('numbers from %s to %s', min(i.sequence_id), max(i.sequence_id)) AS found
FROM payment_outbox_identities i
WHERE i.participant_id IN (
  SELECT n.participant_id FROM (
    SELECT d.participant_id FROM payment_outbox_identities d
    ORDER BY d.outbox_id DESC LIMIT NULLIF(current_setting('symphony.examined_items', true), '')::bigint
  ) n
)
GROUP BY i.participant_id
HAVING min(i.sequence_id) <> 1 OR max(i.sequence_id) <> count(*)
LIMIT 20;
