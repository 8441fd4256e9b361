import { go, pathTo } from '../../app/router.js'
import { enqueuePayment } from '../../data/api.js'
import { boundTo } from '../../data/me.js'
import { ActionForm } from '../../parts/ActionForm.js'
import { formText } from '../../parts/formText.js'

interface EnqueueFormProps {
  readonly rails: readonly string[]
  /** @default opens its timeline */
  readonly onAccepted?: (outboxId: string) => void
}

/** A payment from the page: the same request as any client's, under the same rules. */
export function EnqueueForm({ rails, onAccepted = (id) => go(pathTo(['payments', id])) }: EnqueueFormProps) {
  const act = async (form: FormData) => {
    const text = (name: string) => formText(form, name)
    const { outboxId, instructionId } = await enqueuePayment({
      instructionId: newInstructionId(),
      participantId: text('participant'),
      railType: text('rail'),
      payload: { amount: text('amount'), currency: text('currency'), destination: text('destination') },
    })
    onAccepted(outboxId)
    return `${instructionId} is committed. A worker takes it from here.`
  }
  return (
    <ActionForm action="Enqueue the payment" act={act}>
      <div class="row">
        <Field name="amount" label="Amount" value="12.50" inputMode="decimal" />
        <Field name="currency" label="Currency" value="EUR" />
      </div>
      <Field name="destination" label="Destination" value="DE89370400440532013000" />
      <div class="row">
        <Field name="participant" label="Participant" value={boundTo()?.[0] ?? 'acme'} />
        <div class="field">
          <label for="enqueue-rail">Rail</label>
          <select id="enqueue-rail" name="rail" class="input">
            {rails.map((rail) => (
              <option key={rail}>{rail}</option>
            ))}
          </select>
        </div>
      </div>
    </ActionForm>
  )
}

interface FieldProps {
  readonly name: string
  readonly label: string
  readonly value: string
  readonly inputMode?: 'decimal'
}

function Field({ name, label, value, inputMode }: FieldProps) {
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
        {...(inputMode === undefined ? {} : { inputMode })}
      />
    </div>
  )
}

/** Names the payment for ever, so each press of the button is another one. */
function newInstructionId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(5))
  return `from-the-dashboard-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`
}
