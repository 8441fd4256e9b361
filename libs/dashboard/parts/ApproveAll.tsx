import { useState } from 'preact/hooks'
import type { Proposal } from '../../http/index.js'
import { approveProposal } from '../data/api.js'
import { plural } from '../data/format.js'
import { isMe, mayI } from '../data/me.js'
import { DECISIONS } from './decisions.js'
import { ManySheet } from './ManySheet.js'
import { MoneyList } from './MoneyList.js'

interface ApproveAllProps {
  /** Of the rows that are shown. */
  readonly proposals: readonly (Proposal | null)[]
  readonly onDone: () => void
}

/** The second person's yes to everything that others propose on this page; offered where there are several. */
export function ApproveAll({ proposals, onDone }: ApproveAllProps) {
  // As it was when the question was asked: what comes in while it is read is not meant.
  const [asked, setAsked] = useState<readonly Proposal[] | null>(null)
  const others = proposals.flatMap((proposal) => (proposal === null || isMe(proposal.proposedBy) ? [] : [proposal]))
  if (!mayI('operate') || (others.length < 2 && asked === null)) return null
  return (
    <>
      <button type="button" class="button" onClick={() => setAsked(others)}>
        Approve {others.length} {plural(others.length, 'proposal')}
      </button>
      {asked === null ? null : (
        <ManySheet
          title={`Approve ${asked.length} proposals`}
          action={`Approve ${asked.length}`}
          explanation={`What was proposed for the ${asked.length} payments shown happens, each for itself: ${wordsOf(asked)}. You answer for each of them.`}
          all={asked}
          act={({ proposalId }) => approveProposal(proposalId)}
          said={`${asked.length} proposals are approved and applied.`}
          needsReason={false}
          onClose={() => setAsked(null)}
          onDone={onDone}
        >
          <MoneyList payments={asked} />
        </ManySheet>
      )}
    </>
  )
}

/** `3 × redrive, 1 × it was not paid` */
function wordsOf(proposals: readonly Proposal[]): string {
  const decisions = [...new Set(proposals.map(({ decision }) => decision))]
  return decisions
    .map((decision) => `${proposals.filter((one) => one.decision === decision).length} × ${DECISIONS[decision].short}`)
    .join(', ')
}
