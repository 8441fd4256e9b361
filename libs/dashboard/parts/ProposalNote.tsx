import { useState } from 'preact/hooks'
import type { Proposal } from '../../http/index.js'
import { withdrawProposal } from '../data/api.js'
import { isMe, hasScope } from '../data/me.js'
import { ApproveDialog } from './ApproveDialog.js'
import { DECISIONS } from './decisions.js'
import { Icon } from './Icon.js'
import { RelativeTime } from './RelativeTime.js'
import { Money } from './Money.js'
import { ReasonDialog } from './ReasonDialog.js'

/** Shows an open proposal. Its author can withdraw it, but the server refuses an approval by the author. */
export function ProposalNote({ proposal, onDone }: { readonly proposal: Proposal; readonly onDone: () => void }) {
  const { proposalId, decision, reason, railReference, proposedBy, proposedAt } = proposal
  const [asked, setAsked] = useState<'approve' | 'withdraw' | null>(null)
  const isMine = isMe(proposedBy)
  return (
    <div class="proposal tone-held">
      <p>
        <span class="state tone-held">
          <Icon name="info" />
          Proposed
        </span>{' '}
        <strong>{DECISIONS[decision].meaning}</strong>
        {railReference === null ? null : (
          <>
            , reference <code>{railReference}</code>
          </>
        )}
      </p>
      <p>
        <Money of={proposal} />
      </p>
      <p>“{reason}”</p>
      <p class="quiet">
        by {proposedBy}, <RelativeTime at={proposedAt} />
        {isMine ? '. You proposed it, so another person must approve it.' : null}
      </p>
      {hasScope('operate') ? (
        <div class="buttons">
          <button type="button" class={`button small ${isMine ? '' : 'primary'}`} onClick={() => setAsked('approve')}>
            Approve
          </button>
          <button type="button" class="button small" onClick={() => setAsked('withdraw')}>
            {isMine ? 'Withdraw' : 'Refuse'}
          </button>
        </div>
      ) : null}
      {asked === 'approve' ? (
        <ApproveDialog proposal={proposal} onClose={() => setAsked(null)} onDone={onDone} />
      ) : null}
      {asked === 'withdraw' ? (
        <ReasonDialog
          title={isMine ? 'Withdraw the proposal' : 'Refuse the proposal'}
          action={isMine ? 'Withdraw it' : 'Refuse it'}
          explanation="The payment stays as it is."
          onClose={() => setAsked(null)}
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
