# Prepares the guide docs/operate/reconcile.md, which sources this file: logins, payments, outcomes and the statement.
export DATABASE_URL=$ADMIN_URL
symphony deploy --create-login robot=control+readonly --create-login alice=control+readonly \
  --create-login bob=control+readonly --json
psql "$ADMIN_URL" -c "ALTER ROLE robot PASSWORD 'robot-secret'; ALTER ROLE alice PASSWORD 'alice-secret'; ALTER ROLE bob PASSWORD 'bob-secret'"
pay() { psql "$ADMIN_URL" -c "SELECT symphony.enqueue_payment_outbox('$1', 'ACME', '$1', 'sepa', \
  '{\"amount\": \"$2\", \"currency\": \"EUR\", \"destination\": \"DE89370400440532013000\"}')"; }
pay INV-1 12.50; pay INV-2 99.00
cat > sepa.mjs <<'RAIL'
export default [{ type: 'sepa', onUnknown: 'hold', async dispatch({ payload }) {
  if (payload.amount === '99.00') throw new Error('no answer')
  return { outcome: 'success', reference: 'bank-1' }
} }]
RAIL
symphony worker --rails sepa.mjs --no-http > worker.log 2>&1 & worker=$!
until psql "$ADMIN_URL" -Atc "SELECT string_agg(state, '' ORDER BY instruction_id) FROM symphony.outbox_operational_status" |
  grep -q DISPATCHEDHELD; do sleep 0.2; done
kill $worker; wait $worker || true
for n in 1 2; do
  id=$(psql "$ADMIN_URL" -Atc "SELECT replace(outbox_id::text, '-', '') FROM symphony.payment_outbox_identities WHERE instruction_id = 'INV-$n'")
  sed -i "s/01981c3e9c5b7a01a5d100000000000$n/$id/" statement.xml
done
sed -i "s/2026-11-17/$(date -u -d tomorrow +%F)/g; s/2026-11-16/$(date -u +%F)/g" statement.xml
printf 'Buchung;Zweck;Betrag;Waehrung\n16.11.2026;01981c3e9c5b7a01a5d1000000000001;-12,50;EUR\n' > book.csv
printf "export default [{ type: 'momo', onUnknown: 'hold', dispatch: () => ({}), async *listPayments() {} }]" > rails.mjs
# Replaces the words FINDING_ID and PROPOSAL_ID of the page by real ids, which a reader copies from the output.
symphony() {
  local words=() word
  for word; do
    case $word in
      FINDING_ID) word=$(psql "$ADMIN_URL" -Atc "SELECT finding_id FROM symphony.reconciliation_findings WHERE kind = 'paid_not_recorded'") ;;
      PROPOSAL_ID) word=$(psql "$ADMIN_URL" -Atc "SELECT proposal_id FROM symphony.payment_outbox_proposals") ;;
    esac
    words+=("$word")
  done
  command symphony "${words[@]}"
}
export ROBOT_URL=postgres://robot:robot-secret@$DATABASE ALICE_URL=postgres://alice:alice-secret@$DATABASE
export BOB_URL=postgres://bob:bob-secret@$DATABASE
