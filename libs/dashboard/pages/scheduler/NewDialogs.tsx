import { useState } from 'preact/hooks'
import type { JobBody } from '../../../http/index.js'
import { putJob, putTimer } from '../../data/api.js'
import { RequestError } from '../../data/client.js'
import { ActionForm } from '../../parts/ActionForm.js'
import { Dialog } from '../../parts/Dialog.js'
import { formText } from '../../parts/formText.js'
import { TextField } from '../../parts/TextField.js'

interface NewDialogProps {
  readonly onClose: () => void
  readonly onDone: () => void
}

const MISSED = {
  once: 'Send one message for all of them',
  skip: 'Skip them',
  all: 'Send a message for each',
} as const

/** @param taken names of existing jobs, which this form must not overwrite */
export function NewJobDialog({ taken, onClose, onDone }: NewDialogProps & { readonly taken: readonly string[] }) {
  const act = async (form: FormData) => {
    const name = formText(form, 'name')
    if (taken.includes(name)) throw invalid('A job of this name exists', 'Choose another name.')
    const fields = {
      cron: formText(form, 'cron'),
      timeZone: formText(form, 'timeZone'),
      missedRuns: missedRunsIn(form),
      ...messageIn(form),
    }
    await putJob(name, fields, payloadIn(form))
    onDone()
    return `${name} is created.`
  }
  return (
    <Dialog title="New job" onClose={onClose}>
      <ActionForm action="Create the job" act={act} onDone={onClose}>
        <TextField name="name" label="Name" required />
        <div class="row">
          <TextField name="cron" label="Cron expression" hint="Such as 0 2 * * * or @daily." maxLength={256} required />
          <TextField name="timeZone" label="Time zone" preset="UTC" required />
        </div>
        <MessageFields />
        <div class="field">
          <label for="missedRuns">Occurrences missed while no scheduler ran</label>
          <select id="missedRuns" name="missedRuns" class="input">
            {Object.entries(MISSED).map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        </div>
      </ActionForm>
    </Dialog>
  )
}

export function NewTimerDialog({ onClose, onDone }: NewDialogProps) {
  // All tries of this form use one id, so that a repeated request creates no second timer.
  const [timerId] = useState(newUuid)
  const act = async (form: FormData) => {
    const fields = { dueAt: new Date(formText(form, 'dueAt')).toISOString(), ...messageIn(form) }
    await putTimer(timerId, fields, payloadIn(form))
    onDone()
    return 'The timer is scheduled.'
  }
  return (
    <Dialog title="New timer" onClose={onClose}>
      <ActionForm action="Schedule the timer" act={act} onDone={onClose}>
        <div class="field">
          <label for="dueAt">Due</label>
          <input id="dueAt" name="dueAt" type="datetime-local" class="input" max="9999-12-31T23:59" required />
          <span class="hint">In the time zone of this browser. A past time is due at once.</span>
        </div>
        <MessageFields />
      </ActionForm>
    </Dialog>
  )
}

function MessageFields() {
  return (
    <>
      <div class="row">
        <TextField name="topic" label="Topic" hint="Receives the message." required />
        <TextField name="participantId" label="Participant" hint="Optional." />
      </div>
      <div class="field">
        <label for="payload">Payload</label>
        <textarea id="payload" name="payload" class="input mono" rows={4} required defaultValue="{}" />
        <span class="hint">A JSON object.</span>
      </div>
    </>
  )
}

function messageIn(form: FormData): Pick<JobBody, 'topic' | 'participantId'> {
  const participantId = formText(form, 'participantId')
  return {
    topic: formText(form, 'topic'),
    ...(participantId === '' ? {} : { participantId }),
  }
}

/** Returns the text of a JSON object. The server checks its values. */
function payloadIn(form: FormData): string {
  const text = formText(form, 'payload')
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    value = undefined
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return text
  throw invalid('The payload is not a JSON object', 'Expected an object such as {"report": "daily"}.')
}

function missedRunsIn(form: FormData): keyof typeof MISSED {
  const chosen = formText(form, 'missedRuns')
  return chosen === 'skip' || chosen === 'all' ? chosen : 'once'
}

function invalid(title: string, detail: string): RequestError {
  return new RequestError({ status: 0, code: 'INVALID_ARGUMENT', title, detail, requestId: undefined })
}

/** Returns a random UUID. Pages served over http lack `crypto.randomUUID`. */
function newUuid(): string {
  const bytes = Array.from(crypto.getRandomValues(new Uint8Array(16)))
  const hex = bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`
}
