-- State that a restore must keep: settings, a lease floor, a lease above it, and a payment.
UPDATE symphony.symphony_settings SET full_trail = true, actor_gateways = '{web}';
SELECT symphony.acquire_lease('removed', 'a', 60000);
UPDATE symphony.symphony_leases SET fencing_token = 41, expires_at = now() - interval '2 hours';
SELECT symphony.purge_idle_leases(3600, 1000);
SELECT symphony.acquire_lease('kept', 'a', 60000);
SELECT symphony.enqueue_payment_outbox('INV-1', 'shop', 'k', 'simulated', '{"amount": "1.00", "currency": "EUR"}');
