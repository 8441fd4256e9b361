import { announce } from '../../app/announce.js'
import { addressOf } from '../../data/client.js'
import { hasScope, me } from '../../data/me.js'
import { readToken } from '../../data/session.js'
import { shellQuoted } from '../../data/shellQuoted.js'
import { Panel } from '../../parts/Panel.js'
import { Skeleton } from '../../parts/Skeleton.js'
import { SIMULATED } from '../../parts/PaymentFilters.js'
import { EnqueueForm } from '../payment/dialogs.js'

export function FirstVisit({
  rails,
  onAccepted,
}: {
  readonly rails: readonly string[]
  onAccepted: (id: string) => void
}) {
  const rail = rails[0] ?? SIMULATED
  return (
    <div class="first-visit">
      <Panel title="No payments yet">
        <p class="story">
          Symphony sends payments from your database to a payment rail: your service commits an instruction, a worker
          leases it, calls the rail and records the outcome in an append-only ledger. If the rail gives no clear answer,
          Symphony does not simply send the payment again: it asks the rail, or holds the payment for an operator. This
          page shows the queue, the workers and the ledger live. Enqueue a first payment and watch it.
        </p>
      </Panel>
      <Panel title="Enqueue a first payment">
        {me.value === null ? (
          <Skeleton lines={6} />
        ) : hasScope('ingest') ? (
          <EnqueueForm rails={rails.length === 0 ? [rail] : rails} onAccepted={onAccepted} />
        ) : (
          <p class="quiet">
            Your token may not enqueue: that needs the scope <code>ingest</code>.
          </p>
        )}
      </Panel>
      {/* Shows the command only for the simulated rail, because a pasted command must not move money. */}
      {rail === SIMULATED ? (
        <Panel title="Or from a terminal">
          <div class="stack tight">
            <pre class="block">{curlLine('$TOKEN')}</pre>
            <button type="button" class="button small start" onClick={() => void copyCurl()}>
              Copy, token included
            </button>
          </div>
        </Panel>
      ) : null}
    </div>
  )
}

function curlLine(token: string): string {
  const body = [
    `{"instructionId": "first-payment",`,
    ` "participantId": "acme",`,
    ` "railType": "${SIMULATED}",`,
    ` "payload": {"amount": "12.50", "currency": "EUR",`,
    `             "destination": "DE89370400440532013000"}}`,
  ].join('\n      ')
  return [
    `curl -sS ${addressOf('/v1/instructions')}`,
    `-H "Authorization: Bearer ${token}"`,
    `-H "Idempotency-Key: first-payment"`,
    `-H "Content-Type: application/json"`,
    `-d ${shellQuoted(body)}`,
  ].join(' \\\n  ')
}

async function copyCurl(): Promise<void> {
  try {
    const token = readToken()
    await navigator.clipboard.writeText(curlLine(token ?? '$TOKEN'))
    announce(
      token === null ? 'The line was copied. Set TOKEN to a key.' : 'The line was copied, with your token in it.',
    )
  } catch {
    announce('This browser does not let the page copy. Select the text instead.')
  }
}
