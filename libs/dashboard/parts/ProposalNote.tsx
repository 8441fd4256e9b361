import { useState } from 'preact/hooks'
import type { Proposal } from '../../http/index.js'
import { approveProposal, withdrawProposal } from '../data/api.js'
import { isMe, mayI } from '../data/me.js'
import { Glyph } from './Glyph.js'
import { Moment } from './Moment.js'
import { ProblemNote } from './ProblemNote.js'
import { ReasonSheet } from './ReasonSheet.js'
import { useAct } from './useAct.js'

const MEANINGS = {
  DISPATCHED: 'It was paid',
  FAILED: 'It was not paid, and shall not be',
  RETRY: 'Send it again',
  REDRIVE: 'Redrive it as a payment of its own',
}

/** A decision that waits for its second person. Who proposed it may look, and withdraw, but not approve: the server refuses. */
export function ProposalNote({ proposal, onDone }: { readonly proposal: Proposal; readonly onDone: () => void }) {
  const { proposalId, decision, reason, railReference, proposedBy, proposedAt } = proposal
  const [isWithdrawing, setIsWithdrawing] = useState(false)
  const { isRunning, problem, run } = useAct()
  const isMine = isMe(proposedBy)
  const approve = () =>
    run(async () => {
      await approveProposal(proposalId)
      onDone()
      return 'Approved and applied.'
    })
  return (
    <div class="proposal tone-held">
      <p>
        <span class="state tone-held">
          <Glyph name="info" />
          Proposed
        </span>{' '}
        <strong>{MEANINGS[decision]}</strong>
        {railReference === null ? null : (
          <>
            , reference <code>{railReference}</code>
          </>
        )}
      </p>
      <p>“{reason}”</p>
      <p class="quiet">
        by {proposedBy}, <Moment at={proposedAt} />
        {isMine ? '. You proposed it, so somebody else must approve it.' : null}
      </p>
      {problem === null ? null : <ProblemNote problem={problem} />}
      {mayI('operate') ? (
        <div class="buttons">
          <button
            type="button"
            class={`button small ${isMine ? '' : 'primary'}`}
            disabled={isRunning}
            onClick={approve}
          >
            Approve
          </button>
          <button type="button" class="button small" onClick={() => setIsWithdrawing(true)}>
            {isMine ? 'Withdraw' : 'Refuse'}
          </button>
        </div>
      ) : null}
      {isWithdrawing ? (
        <ReasonSheet
          title={isMine ? 'Withdraw the proposal' : 'Refuse the proposal'}
          action={isMine ? 'Withdraw it' : 'Refuse it'}
          explanation="The payment stays as it is."
          onClose={() => setIsWithdrawing(false)}
          act={async (why) => {
            await withdrawProposal(proposalId, why)
            onDone()
            return isMine ? 'The proposal is withdrawn.' : 'The proposal is refused.'
          }}
        />
      ) : null}
    </div>
  )
}
