-- Dispatch is not frozen.
SELECT 'dispatch' AS object, 'open' AS expected, format('frozen (%s): %s', e.freeze_cause, e.freeze_reason) AS found
FROM (SELECT d.* FROM dispatch_epochs d ORDER BY d.epoch_no DESC LIMIT 1) e
WHERE e.frozen;
