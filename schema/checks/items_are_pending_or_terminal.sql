-- Every item is either pending or terminal, and every pending item has an identity. Examines the newest
-- symphony.examined_items items, or all if the setting is empty.
SELECT i.outbox_id::text AS object, 'pending or terminal' AS expected,
  CASE WHEN p.outbox_id IS NULL THEN 'neither' ELSE 'both' END AS found
FROM (
  SELECT d.outbox_id FROM payment_outbox_identities d
  ORDER BY d.outbox_id DESC LIMIT NULLIF(current_setting('symphony.examined_items', true), '')::bigint
) i
LEFT JOIN payment_outbox_pending p ON p.outbox_id = i.outbox_id
LEFT JOIN payment_outbox_attempts a ON a.outbox_id = i.outbox_id AND a.state IN ('DISPATCHED', 'FAILED')
WHERE (p.outbox_id IS NULL) = (a.outbox_id IS NULL)
UNION ALL
SELECT p.outbox_id::text, 'an identity', 'none'
FROM payment_outbox_pending p
WHERE NOT EXISTS (SELECT 1 FROM payment_outbox_identities i WHERE i.outbox_id = p.outbox_id)
LIMIT 20;
