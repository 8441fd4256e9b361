import type { OutboxItem } from '../../../http/index.js'
import { navigate, pathTo } from '../../app/router.js'
import { enqueuePayment, readProof } from '../../data/api.js'
import { RequestError } from '../../data/client.js'
import { payloadIn } from '../../data/ledgerProof.js'
import { hasScope } from '../../data/me.js'
import { useResource } from '../../data/useResource.js'
import { ActionForm } from '../../parts/ActionForm.js'
import { APPROVERS } from '../../parts/decisions.js'
import { Dialog } from '../../parts/Dialog.js'
import { formText } from '../../parts/formText.js'
import { SIMULATED } from '../../parts/PaymentFilters.js'
import { Money } from '../../parts/Money.js'
import { ReasonField } from '../../parts/ReasonDialog.js'
import { ResourceView } from '../../parts/ResourceView.js'
import { ID_PATTERN, TextField } from '../../parts/TextField.js'
import { indented } from './LedgerPanel.js'

interface ReplaceDialogProps {
  readonly item: OutboxItem
  readonly onClose: () => void
  readonly onDone: () => void
}

/** Placeholder for a masked value, which the person must replace. */
const ENTER_ANEW = 'ENTER ANEW'
const MASKED = /"(?:••••[^"]*|\[encrypted\])"/g

/**
 * Corrects the payload of a failed payment, and enqueues it as a new payment that replaces the old one. On a real rail
 * another person must approve it.
 */
export function ReplaceDialog({ item, onClose, onDone }: ReplaceDialogProps) {
  const { outboxId, instructionId, participantId, railType } = item
  const old = useResource({
    key: outboxId,
    load: async (signal) => (hasScope('audit') ? payloadIn(await readProof(outboxId, signal)) : null),
    isFinal: () => true,
    concerns: () => false,
  })
  const needsApproval = railType !== SIMULATED
  const act = async (form: FormData) => {
    const payload = formText(form, 'payload')
    requireObject(payload)
    const accepted = await enqueuePayment(
      { instructionId: formText(form, 'instructionId'), participantId, railType, replaces: outboxId },
      payload,
      needsApproval ? formText(form, 'reason') : null,
    )
    onDone()
    navigate(pathTo(['payments', accepted.outboxId]))
    return needsApproval
      ? `${accepted.instructionId} is proposed. ${APPROVERS}`
      : `${accepted.instructionId} replaces ${instructionId}.`
  }
  return (
    <Dialog title="Correct and replace" onClose={onClose}>
      <ResourceView from={old} lines={6}>
        {(payload) => (
          <ActionForm
            action={needsApproval ? 'Propose the replacement' : 'Replace the payment'}
            act={act}
            onDone={onClose}
          >
            <p>
              {instructionId}: <Money of={item} />. A new payment with a corrected payload replaces it, and refers to
              it.
              {needsApproval ? ` That moves money. ${APPROVERS}` : null}
            </p>
            <TextField
              name="instructionId"
              label="New instruction id"
              preset={`${instructionId.slice(0, 116)}-corrected`}
              hint="1 to 128 printable ASCII characters without spaces. Identifies the new payment for ever."
              pattern={ID_PATTERN}
              required
            />
            <div class="field">
              <label for="payload">Payload</label>
              <textarea
                id="payload"
                name="payload"
                class="input mono"
                rows={8}
                required
                spellcheck={false}
                defaultValue={indented((payload ?? shownPart(item)).replaceAll(MASKED, `"${ENTER_ANEW}"`))}
              />
              <span class="hint">
                {payload === null
                  ? 'Your token may not read payloads (scope audit): enter all fields.'
                  : `Correct it. Masked values appear as ${ENTER_ANEW}.`}
              </span>
            </div>
            {needsApproval ? <ReasonField /> : null}
          </ActionForm>
        )}
      </ResourceView>
    </Dialog>
  )
}

/** Returns JSON with amount and currency, which every list shows, and a placeholder for the destination. */
function shownPart({ amount, currency }: OutboxItem): string {
  return JSON.stringify({ amount: amount ?? ENTER_ANEW, currency: currency ?? ENTER_ANEW, destination: ENTER_ANEW })
}

/**
 * Refuses text that is not a JSON object or still contains a placeholder. The text itself is sent, so that no digit is
 * lost.
 */
function requireObject(text: string): void {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    value = undefined
  }
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  if (isObject && !text.includes(ENTER_ANEW)) return
  throw new RequestError({
    status: 0,
    code: 'INVALID_PAYLOAD',
    title: isObject ? 'A value is missing' : 'The payload is not a JSON object',
    detail: isObject ? `Replace each ${ENTER_ANEW}.` : 'Check commas, quotes and brackets.',
    requestId: undefined,
  })
}
