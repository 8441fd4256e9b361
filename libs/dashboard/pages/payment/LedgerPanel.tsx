import { useEffect, useState } from 'preact/hooks'
import type { Proof } from '../../../http/index.js'
import { readProof } from '../../data/api.js'
import { plural } from '../../data/format.js'
import { checkProof, firstBreak, payloadIn, type CheckedRow } from '../../data/ledgerProof.js'
import { hasScope, me } from '../../data/me.js'
import { useResource } from '../../data/useResource.js'
import { Icon } from '../../parts/Icon.js'
import { ResourceView } from '../../parts/ResourceView.js'
import { Panel } from '../../parts/Panel.js'
import { Skeleton } from '../../parts/Skeleton.js'

/**
 * Compares the rows of a payment with their sealed blocks. Recomputes the hashes in the browser, without trusting the
 * server.
 */
export function LedgerPanel({ outboxId, version }: { readonly outboxId: string; readonly version: string }) {
  if (me.value === null)
    return (
      <Panel title="Ledger">
        <Skeleton lines={3} />
      </Panel>
    )
  if (!hasScope('audit'))
    return (
      <Panel title="Ledger">
        <p class="quiet">
          To verify it here, sign in with a token of the scope <code>audit</code>: the check needs the content of every
          row.
        </p>
      </Panel>
    )
  if (globalThis.crypto.subtle === undefined)
    return (
      <Panel title="Ledger">
        <p class="quiet">
          Browsers compute hashes only for pages from https or from this machine. Verify it with{' '}
          <code>symphony ledger verify</code> instead.
        </p>
      </Panel>
    )
  return <VerifiedRows outboxId={outboxId} version={version} />
}

function VerifiedRows({ outboxId, version }: { readonly outboxId: string; readonly version: string }) {
  const proof = useResource({
    key: `${outboxId} ${version}`,
    load: async (signal) => {
      const given = await readProof(outboxId, signal)
      return { given, checked: await checkProof(given) }
    },
    concerns: () => false,
    // Polls, because no event reports a sealed block.
    everyMs: 2_000,
    isFinal: ({ checked }) => checked.every(({ block }) => block !== null),
  })
  return (
    <ResourceView from={proof} lines={4}>
      {({ given, checked }) => (
        <>
          <Panel title="Ledger">
            <Rows checked={checked} />
          </Panel>
          <PayloadPanel proof={given} />
        </>
      )}
    </ResourceView>
  )
}

function Rows({ checked }: { readonly checked: readonly CheckedRow[] }) {
  const broken = firstBreak(checked)
  return (
    <div class="stack tight" data-ledger={broken === undefined ? 'sound' : 'broken'}>
      {broken === undefined ? (
        <Verdict checked={checked} />
      ) : (
        <div class="note tone-bad" role="alert">
          <Icon name="warning" />
          <p>
            <strong>Broken at {broken.position}:</strong> {broken.defect}. The ledger was changed. Keep the database as
            it is, and inform your auditor.
          </p>
        </div>
      )}
      <ol class="links">
        {checked.map(({ position, block, defect, isMasked }) => (
          <li key={position} class={defect === undefined ? (block === null ? '' : 'tone-good') : 'tone-bad'}>
            <Icon name={defect === undefined ? (block === null ? 'scheduled' : 'done') : 'failed'} size={12} />
            <span>{position}</span>
            <span class="quiet">
              {block === null ? 'not sealed yet' : `block ${block}`}
              {isMasked ? ', masked' : null}
            </span>
            {defect === undefined ? (
              <span class="unseen">{block === null ? null : 'sound'}</span>
            ) : (
              <span class="links-defect">{defect}</span>
            )}
          </li>
        ))}
      </ol>
    </div>
  )
}

function Verdict({ checked }: { readonly checked: readonly CheckedRow[] }) {
  const sealed = checked.filter(({ block }) => block !== null).length
  const open = checked.length - sealed
  const masked = checked.filter(({ block, isMasked }) => isMasked && block !== null).length
  return (
    <p>
      {sealed === 0 ? null : (
        <>
          <span class="state tone-good">
            <Icon name="done" />
            Verified
          </span>{' '}
          in this browser: {sealed} {plural(sealed, 'row')} against {plural(sealed, 'its', 'their')} sealed{' '}
          {plural(sealed, 'block')}.{' '}
        </>
      )}
      {masked === 0 ? null : (
        <>
          The content of {masked} {plural(masked, 'row')} is masked and was not compared;{' '}
          <code>symphony ledger verify</code> compares it.{' '}
        </>
      )}
      {open === 0
        ? null
        : `${open} ${plural(open, 'row is', 'rows are')} in no block yet. A worker seals the ledger about once a second; an older open transaction delays it.`}
    </p>
  )
}

function PayloadPanel({ proof }: { readonly proof: Proof }) {
  const [isShown, setIsShown] = useState(false)
  const payload = payloadIn(proof)
  useEffect(() => setIsShown(false), [proof.outboxId])
  if (payload === null) return null
  return (
    <Panel title="Payload">
      {isShown ? (
        <pre class="block">{indented(payload)}</pre>
      ) : (
        <button type="button" class="button small" onClick={() => setIsShown(true)}>
          Show the payload
        </button>
      )}
    </Panel>
  )
}

/** Indents the stored text. Does not parse it, because large numbers would lose digits. */
export function indented(payload: string): string {
  let depth = 0
  let inText = false
  let out = ''
  for (let at = 0; at < payload.length; at += 1) {
    const character = payload.charAt(at)
    if (inText) {
      out += character
      if (character === '\\') out += payload.charAt(++at)
      else if (character === '"') inText = false
    } else if (character === '{' || character === '[') out += `${character}\n${'  '.repeat(++depth)}`
    else if (character === '}' || character === ']') out += `\n${'  '.repeat(Math.max(0, --depth))}${character}`
    else if (character === ',') out += `,\n${'  '.repeat(depth)}`
    else if (character === ' ' && /[\s]$/.test(out)) continue
    else {
      inText = character === '"'
      out += character
    }
  }
  return out
}
