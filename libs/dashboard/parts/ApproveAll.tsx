import { useState } from 'preact/hooks'
import type { Hold } from '../../http/index.js'
import { plural } from '../data/format.js'
import { isMe, hasScope } from '../data/me.js'
import { BulkApproveDialog } from '../pages/payment/dialogs.js'

interface ApproveAllProps {
  readonly rows: readonly Hold[]
  readonly onDone: () => void
}

/** Offers to approve all proposals of other people on this page, if there are several. */
export function ApproveAll({ rows, onDone }: ApproveAllProps) {
  // Rows at the time of the click: later proposals are not approved.
  const [asked, setAsked] = useState<typeof others | null>(null)
  const others = rows.flatMap(({ item, proposal }) =>
    proposal === null || isMe(proposal.proposedBy) ? [] : [{ ...item, ...proposal }],
  )
  if (!hasScope('operate') || (others.length < 2 && asked === null)) return null
  return (
    <>
      <button type="button" class="button" onClick={() => setAsked(others)}>
        Approve {others.length} {plural(others.length, 'proposal')}
      </button>
      {asked === null ? null : <BulkApproveDialog asked={asked} onClose={() => setAsked(null)} onDone={onDone} />}
    </>
  )
}
