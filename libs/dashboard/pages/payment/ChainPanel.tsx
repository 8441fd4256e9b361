import { useEffect, useState } from 'preact/hooks'
import type { Chain } from '../../../http/index.js'
import { readChain } from '../../data/api.js'
import { checkChain, firstBreak, type CheckedChain, type CheckedLink } from '../../data/chain.js'
import { plural } from '../../data/format.js'
import { mayI, me } from '../../data/me.js'
import { useResource } from '../../data/useResource.js'
import { Glyph } from '../../parts/Glyph.js'
import { Loaded } from '../../parts/Loaded.js'
import { Panel } from '../../parts/Panel.js'
import { Skeleton } from '../../parts/Skeleton.js'

/** The hash chain, recomputed in this browser: the server is not asked whether its own ledger is right. */
export function ChainPanel({ outboxId, version }: { readonly outboxId: string; readonly version: string }) {
  if (me.value === null)
    return (
      <Panel title="Hash chain">
        <Skeleton lines={3} />
      </Panel>
    )
  if (!mayI('audit'))
    return (
      <Panel title="Hash chain">
        <p class="quiet">
          To verify it here, sign in with a token of the scope <code>audit</code>: the content of every row is needed
          for that.
        </p>
      </Panel>
    )
  if (globalThis.crypto.subtle === undefined)
    return (
      <Panel title="Hash chain">
        <p class="quiet">
          Browsers compute hashes only for pages from https or from this machine. Verify it with{' '}
          <code>symphony ledger verify</code> instead.
        </p>
      </Panel>
    )
  return <VerifiedChain outboxId={outboxId} version={version} />
}

function VerifiedChain({ outboxId, version }: { readonly outboxId: string; readonly version: string }) {
  const chain = useResource({
    key: `${outboxId} ${version}`,
    load: async (signal) => {
      const given = await readChain(outboxId, signal)
      return { given, checked: await checkChain(given) }
    },
    concerns: () => false,
  })
  return (
    <Loaded from={chain} lines={4}>
      {({ given, checked }) => (
        <>
          <Panel title="Hash chain">
            <Links checked={checked} />
          </Panel>
          <PayloadPanel chain={given} />
        </>
      )}
    </Loaded>
  )
}

function Links({ checked }: { readonly checked: CheckedChain }) {
  const broken = firstBreak(checked)
  const size = checked.ledger.length + checked.events.length
  const masked = checked.ledger.filter(({ isMasked }) => isMasked).length
  return (
    <div class="stack tight" data-chain={broken === undefined ? 'sound' : 'broken'}>
      {broken === undefined ? (
        <p>
          <span class="state tone-good">
            <Glyph name="done" />
            Verified
          </span>{' '}
          in this browser: {size} {plural(size, 'link')}, each hash recomputed from its row
          {masked === 0
            ? '.'
            : `, but for ${masked} with masked fields: symphony ledger verify recomputes ${plural(masked, 'it', 'them')}, too.`}
        </p>
      ) : (
        <div class="note tone-bad" role="alert">
          <Glyph name="warning" />
          <p>
            <strong>Broken at {broken.position}:</strong> {broken.defect}. Somebody has changed the ledger. Keep the
            database as it is, and tell your auditor.
          </p>
        </div>
      )}
      <LinkList label="Ledger" links={checked.ledger} />
      {checked.events.length === 0 ? null : <LinkList label="Events" links={checked.events} />}
    </div>
  )
}

function LinkList({ label, links }: { readonly label: string; readonly links: readonly CheckedLink[] }) {
  return (
    <section aria-label={label}>
      <h3 class="quiet">{label}</h3>
      <ol class="links">
        {links.map(({ position, hash, defect, isMasked }) => (
          <li key={position} class={defect === undefined ? 'tone-good' : 'tone-bad'}>
            <Glyph name={defect === undefined ? 'done' : 'failed'} size={12} />
            <span>{position}</span>
            <code class="quiet" title={hash ?? ''}>
              {hash === null ? 'none' : hash.slice(0, 16)}
            </code>
            <span class={defect === undefined && !isMasked ? 'unseen' : 'links-defect'}>
              {defect ?? (isMasked ? 'masked' : 'sound')}
            </span>
          </li>
        ))}
      </ol>
    </section>
  )
}

/** The position of the payload among an attempt's fields, by the format of the chain. */
const PAYLOAD_AT = 7

function PayloadPanel({ chain }: { readonly chain: Chain }) {
  const [isShown, setIsShown] = useState(false)
  const payload = chain.attempts.at(-1)?.fields[PAYLOAD_AT]
  useEffect(() => setIsShown(false), [chain.outboxId])
  if (payload === undefined || payload === null) return null
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

/** As it was stored, with line breaks; a text that is not JSON is shown as it is. Numbers would lose digits, so they are not read. */
function indented(payload: string): string {
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
