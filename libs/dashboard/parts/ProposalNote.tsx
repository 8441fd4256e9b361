import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { OutboxItem, Proposal } from '../../http/index.js'
import { withdrawProposal } from '../data/api.js'
import { isMe, hasScope } from '../data/me.js'
import { ApproveDialog } from './ApproveDialog.js'
import { wordsOfDecision } from './decisions.js'
import { Icon } from './Icon.js'
import { RelativeTime } from './RelativeTime.js'
import { Money } from './Money.js'
import { ReasonDialog } from './ReasonDialog.js'

interface ProposalNoteProps {
  readonly proposal: Proposal
  /** Payment of the proposal. @default the texts are those for a payment with an earlier attempt */
  readonly item?: OutboxItem
  readonly onDone: () => void
}

/** Shows an open proposal about a payment. */
export function ProposalNote({ proposal, item, onDone }: ProposalNoteProps) {
  const { proposalId, decision, railReference } = proposal
  return (
    <OpenProposal
      proposal={proposal}
      title={wordsOfDecision(decision, item).meaning}
      stays="The payment stays as it is."
      approve={(onClose) => (
        <ApproveDialog proposal={proposal} words={wordsOfDecision(decision, item)} onClose={onClose} onDone={onDone} />
      )}
      withdraw={async (reason) => {
        await withdrawProposal(proposalId, reason)
        onDone()
      }}
    >
      {railReference === null ? null : (
        <p>
          Reference <code>{railReference}</code>
        </p>
      )}
      <p>
        <Money of={proposal} />
      </p>
    </OpenProposal>
  )
}

interface OpenProposalProps {
  readonly proposal: Pick<Proposal, 'reason' | 'proposedBy' | 'proposedAt'>
  readonly title: string
  /** Added to the labels of the buttons for screen readers, on pages with several proposals. */
  readonly name?: string
  /** Sentence that says what stays as it is if the proposal is withdrawn or refused. */
  readonly stays: string
  readonly approve: (onClose: () => void) => ComponentChildren
  readonly withdraw: (reason: string) => Promise<void>
  readonly children: ComponentChildren
}

/**
 * Shows an open proposal of any kind. Its author can withdraw it, and another person can approve or refuse it. The
 * server refuses an approval by the author.
 */
export function OpenProposal({ proposal, title, name, stays, approve, withdraw, children }: OpenProposalProps) {
  const { reason, proposedBy, proposedAt } = proposal
  const [asked, setAsked] = useState<'approve' | 'withdraw' | null>(null)
  const isMine = isMe(proposedBy)
  const refuse = isMine ? 'Withdraw' : 'Refuse'
  const labelled = (action: string) => (name === undefined ? {} : { 'aria-label': `${action} ${name}` })
  return (
    <div class="proposal tone-held">
      <p>
        <span class="state tone-held">
          <Icon name="info" />
          Proposed
        </span>{' '}
        <strong>{title}</strong>
      </p>
      {children}
      <p>
        “<bdi>{reason}</bdi>”
      </p>
      <p class="quiet">
        by {proposedBy}, <RelativeTime at={proposedAt} />
        {isMine ? '. You proposed it, so another person must approve it.' : null}
      </p>
      {hasScope('operate') ? (
        <div class="buttons">
          <button
            type="button"
            class={`button small ${isMine ? '' : 'primary'}`}
            {...labelled('Approve')}
            onClick={() => setAsked('approve')}
          >
            Approve
          </button>
          <button type="button" class="button small" {...labelled(refuse)} onClick={() => setAsked('withdraw')}>
            {refuse}
          </button>
        </div>
      ) : null}
      {asked === 'approve' ? approve(() => setAsked(null)) : null}
      {asked === 'withdraw' ? (
        <ReasonDialog
          title={`${refuse} ${name ?? 'the proposal'}`}
          action={`${refuse} it`}
          explanation={stays}
          onClose={() => setAsked(null)}
          act={async (why) => {
            await withdraw(why)
            return isMine ? 'The proposal is withdrawn.' : 'The proposal is refused.'
          }}
        />
      ) : null}
    </div>
  )
}
