-- The lease floor is at least as high as the highest floor that an acquire has seen. With a lower floor, new fencing
-- tokens could repeat those of removed leases.
SELECT 'symphony_lease_floor' AS object, format('a token of at least %s', l.floor_seen) AS expected,
  COALESCE(f.fencing_token::text, 'no row') AS found
FROM (SELECT COALESCE(max(s.floor_seen), 0) AS floor_seen FROM symphony_leases s) l
LEFT JOIN symphony_lease_floor f ON true
WHERE f.fencing_token IS NULL OR f.fencing_token < l.floor_seen;
