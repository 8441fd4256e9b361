import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { navigate, pathTo } from '../../app/router.js'
import { enqueuePayment } from '../../data/api.js'
import { boundTo } from '../../data/me.js'
import { SIMULATED } from '../../parts/PaymentFilters.js'
import { ID_PATTERN } from '../../parts/TextField.js'
import { ActionForm } from '../../parts/ActionForm.js'
import { APPROVERS } from '../../parts/decisions.js'
import { formText } from '../../parts/formText.js'
import { ReasonField } from '../../parts/ReasonDialog.js'

interface EnqueueFormProps {
  readonly rails: readonly string[]
  /** Called with the id of the enqueued payment. @default opens its timeline */
  readonly onAccepted?: (outboxId: string) => void
}

type Draft = Parameters<typeof enqueuePayment>[0] & { readonly payload: DraftPayload }
type DraftPayload = Readonly<Record<'amount' | 'currency' | 'destination', string>>

/**
 * Enqueues a payment. Only the simulated rail has example values. For other rails the person enters all values,
 * including the instruction id, and confirms; another person must approve the payment.
 */
export function EnqueueForm({ rails, onAccepted = (id) => navigate(pathTo(['payments', id])) }: EnqueueFormProps) {
  const [rail, setRail] = useState(rails[0] ?? SIMULATED)
  const [draft, setDraft] = useState<Draft | null>(null)
  const enqueue = async ({ payload, ...fields }: Draft, reason: string | null) => {
    const { outboxId, instructionId, warnings = [] } = await enqueuePayment(fields, JSON.stringify(payload), reason)
    onAccepted(outboxId)
    if (reason !== null) return `${instructionId} is proposed. ${APPROVERS}`
    const next = warnings.map(({ message }) => message).join(' ') || 'A worker sends it as soon as it can.'
    return `${instructionId} is committed. ${next}`
  }
  const isSimulated = rail === SIMULATED
  const submit = async (form: FormData) => {
    const instruction = instructionIn(form)
    if (isSimulated) return enqueue(instruction, null)
    setDraft(instruction)
    return ''
  }
  return (
    <>
      {/* Hidden during the confirmation, so that "Change it" shows all values again. */}
      <div hidden={draft !== null}>
        <ActionForm action={isSimulated ? 'Enqueue the payment' : 'Continue'} act={submit}>
          <div class="field">
            <label for="enqueue-rail">Rail</label>
            <select
              id="enqueue-rail"
              name="rail"
              class="input"
              value={rail}
              onChange={({ currentTarget }) => setRail(currentTarget.value)}
            >
              {[...new Set([...rails, rail])].map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </div>
          <Fields key={String(isSimulated)} isSimulated={isSimulated} />
        </ActionForm>
      </div>
      {draft === null ? null : (
        <Confirmation
          draft={draft}
          act={(form) => enqueue(draft, formText(form, 'reason'))}
          onBack={() => setDraft(null)}
        />
      )}
    </>
  )
}

function Fields({ isSimulated }: { readonly isSimulated: boolean }) {
  const example = (value: string) => (isSimulated ? value : '')
  return (
    <>
      {isSimulated ? null : (
        <Field
          name="instruction"
          label="Instruction id"
          value=""
          hint="1 to 128 printable ASCII characters without spaces. Identifies the payment for ever: the same id again is the same payment."
          pattern={ID_PATTERN}
        />
      )}
      <div class="row">
        <Field name="amount" label="Amount" value={example('12.50')} inputMode="decimal" />
        <Field name="currency" label="Currency" value={example('EUR')} />
      </div>
      <Field name="destination" label="Destination" value={example('DE89370400440532013000')} />
      <Field name="participant" label="Participant" value={boundTo()?.[0] ?? example('acme')} />
    </>
  )
}

interface ConfirmationProps {
  readonly draft: Draft
  readonly act: (form: FormData) => Promise<string>
  readonly onBack: () => void
}

function Confirmation({ draft, act, onBack }: ConfirmationProps) {
  const { instructionId, participantId, railType, payload } = draft
  const back = useRef<HTMLButtonElement>(null)
  // Focuses "Change it" instead of the confirming button, so that a second Enter does not confirm.
  useLayoutEffect(() => back.current?.focus(), [])
  const change = (
    <button ref={back} type="button" class="button" aria-describedby="enqueue-warning" onClick={onBack}>
      Change it
    </button>
  )
  return (
    <ActionForm action="Propose this payment" act={act} beside={change}>
      <p id="enqueue-warning">
        <strong>This is not a simulation.</strong> When another person has approved the payment, or two above a limit
        that asks for two, a worker sends it to the rail {railType}.
      </p>
      <dl class="facts">
        <dt>Amount</dt>
        <dd>
          <strong class="amount">
            {payload.amount} {payload.currency}
          </strong>
        </dd>
        <dt>Destination</dt>
        <dd class="mono">{payload.destination}</dd>
        <dt>Rail</dt>
        <dd>{railType}</dd>
        <dt>Participant</dt>
        <dd>{participantId}</dd>
        <dt>Instruction</dt>
        <dd>{instructionId}</dd>
      </dl>
      <ReasonField />
    </ActionForm>
  )
}

function instructionIn(form: FormData): Draft {
  const text = (name: string) => formText(form, name)
  return {
    instructionId: text('instruction') || newInstructionId(),
    participantId: text('participant'),
    railType: text('rail'),
    payload: { amount: text('amount'), currency: text('currency'), destination: text('destination') },
  }
}

interface FieldProps {
  readonly name: string
  readonly label: string
  readonly value: string
  readonly hint?: string
  readonly pattern?: string
  readonly inputMode?: 'decimal'
}

function Field({ name, label, value, hint, pattern, inputMode }: FieldProps) {
  return (
    <div class="field">
      <label for={`enqueue-${name}`}>{label}</label>
      <input
        id={`enqueue-${name}`}
        name={name}
        class="input"
        defaultValue={value}
        required
        autocomplete="off"
        {...(pattern === undefined ? {} : { pattern, title: hint })}
        {...(inputMode === undefined ? {} : { inputMode })}
      />
      {hint === undefined ? null : <span class="hint">{hint}</span>}
    </div>
  )
}

/** Returns a new id for each payment on the simulated rail. */
function newInstructionId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(5))
  return `from-the-dashboard-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`
}
