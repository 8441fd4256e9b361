# Prepares the guide docs/operate/auditor.md, which sources this file: login, checkpoints and a dispatched payment.
export DATABASE_URL=$ADMIN_URL
SYMPHONY_LOGIN_PASSWORD=audit-secret symphony deploy --create-login audit=auditor+readonly
symphony ledger keygen --key checkpoint.pem --public-key checkpoint-public.pem
psql "$ADMIN_URL" -c "UPDATE symphony.symphony_settings SET full_trail = true"
symphony enqueue --instruction INV-2026-17 --participant ACME --rail my-bank \
  --payload '{"amount":"12.50","currency":"EUR","destination":"DE89370400440532013000"}'
printf 'export default [{ type: "my-bank", onUnknown: "hold", ' > rails.mjs
printf 'dispatch: () => ({ outcome: "success", reference: "bank-1" }) }]' >> rails.mjs
symphony worker --rails rails.mjs --no-http --seal-interval-ms 100 > worker.log 2>&1 & worker=$!
until symphony ledger checkpoint --key checkpoint.pem --out checkpoints.ndjson &&
  [ -s checkpoints.ndjson ] && symphony show INV-2026-17 | grep -q DISPATCHED; do :; done
kill $worker; wait $worker || true
symphony ledger checkpoint --key checkpoint.pem --out checkpoints.ndjson
export DATABASE_URL=postgres://audit:audit-secret@$DATABASE
