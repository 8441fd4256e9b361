import type { Proposal } from '../../http/index.js'
import { approveProposal } from '../data/api.js'
import { ActionForm } from './ActionForm.js'
import type { DecisionWords } from './decisions.js'
import { Id } from './Id.js'
import { Amount, Destination } from './Money.js'
import { Dialog } from './Dialog.js'

interface ApproveDialogProps {
  readonly proposal: Proposal
  readonly words: DecisionWords
  readonly onClose: () => void
  readonly onDone: () => void
}

export function ApproveDialog({ proposal, words, onClose, onDone }: ApproveDialogProps) {
  const { proposalId, instructionId, outboxId, railReference, reason, proposedBy } = proposal
  const { meaning, short, effect } = words
  const act = async () => {
    const { applied } = await approveProposal(proposalId)
    onDone()
    return applied ? 'Approved and applied.' : 'Approved. One more person must approve it.'
  }
  return (
    <Dialog title="Approve this decision?" onClose={onClose}>
      <ActionForm action={`Approve: ${short}`} onDone={onClose} act={act}>
        <dl class="facts">
          <dt>Decision</dt>
          <dd>
            <strong>{meaning}</strong>
          </dd>
          <dt>Amount</dt>
          <dd>
            <strong>
              <Amount of={proposal} />
            </strong>
          </dd>
          <dt>Destination</dt>
          <dd>
            <Destination of={proposal} />
          </dd>
          <dt>Payment</dt>
          <dd>{instructionId}</dd>
          <dt>Reference</dt>
          <dd>
            <Id value={outboxId} label="outbox id" whole />
          </dd>
          {railReference === null ? null : (
            <>
              <dt>Rail’s reference</dt>
              <dd>
                <Id value={railReference} label="rail reference" whole />
              </dd>
            </>
          )}
          <dt>Reason</dt>
          <dd>
            “<bdi>{reason}</bdi>”
          </dd>
          <dt>Proposed by</dt>
          <dd>{proposedBy}</dd>
        </dl>
        <p>{effect} Your name is recorded with the approval.</p>
      </ActionForm>
    </Dialog>
  )
}
