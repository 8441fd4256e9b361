import { useState } from 'preact/hooks'
import type { Reconciled } from '../../../http/index.js'
import { count, plural } from '../../data/format.js'
import { uploadStatement, type StatementSettings } from '../../data/reconciliation.js'
import { ActionForm } from '../../parts/ActionForm.js'
import { Dialog } from '../../parts/Dialog.js'
import { FindingCard } from '../../parts/FindingCard.js'
import { formText } from '../../parts/formText.js'
import { knownRails } from '../../parts/PaymentFilters.js'

interface UploadDialogProps {
  readonly onClose: () => void
  readonly onDone: () => void
}

interface Compared {
  readonly file: File
  readonly settings: StatementSettings
  readonly result: Reconciled
}

/**
 * Compares a statement in a dry run and shows the result. When the person confirms, uploads it again and stores the
 * run.
 */
export function UploadDialog({ onClose, onDone }: UploadDialogProps) {
  const [compared, setCompared] = useState<Compared | null>(null)
  return (
    <Dialog title="Compare a statement" onClose={onClose}>
      {compared === null ? (
        <StatementForm onCompared={setCompared} />
      ) : (
        <ResultForm compared={compared} onBack={() => setCompared(null)} onClose={onClose} onDone={onDone} />
      )}
    </Dialog>
  )
}

const FORMATS = [
  ['camt053', 'camt.053 (statement)'],
  ['camt054', 'camt.054 (notification)'],
  ['csv', 'CSV'],
  ['ndjson', 'NDJSON'],
] as const

function StatementForm({ onCompared }: { readonly onCompared: (compared: Compared) => void }) {
  const [format, setFormat] = useState('camt053')
  const act = async (form: FormData) => {
    const file = form.get('file')
    if (!(file instanceof File)) throw new Error('no file is chosen')
    const settings = settingsIn(form)
    onCompared({ file, settings, result: await uploadStatement(file, settings, true) })
    return 'The statement was compared. Nothing is stored yet.'
  }
  return (
    <ActionForm action="Compare, store nothing" act={act}>
      <div class="field">
        <label for="statement-file">Statement</label>
        <input id="statement-file" name="file" type="file" class="input" required />
        <span class="hint">The file of the bank for the account that pays the payments.</span>
      </div>
      <div class="row">
        <div class="field">
          <label for="statement-rail">Rail</label>
          <input id="statement-rail" name="rail" class="input mono" list="statement-rails" maxLength={128} required />
          <datalist id="statement-rails">
            {knownRails().map((rail) => (
              <option key={rail} value={rail} />
            ))}
          </datalist>
        </div>
        <div class="field">
          <label for="statement-format">Format</label>
          <select
            id="statement-format"
            name="format"
            class="input"
            value={format}
            onChange={({ currentTarget }) => setFormat(currentTarget.value)}
          >
            {FORMATS.map(([value, word]) => (
              <option key={value} value={value}>
                {word}
              </option>
            ))}
          </select>
        </div>
        <div class="field">
          <label for="statement-days">Settlement days</label>
          <input
            id="statement-days"
            name="settlementDays"
            type="number"
            class="input"
            min={0}
            max={60}
            defaultValue="1"
            required
          />
          <span class="hint">Until the bank books a payment.</span>
        </div>
      </div>
      {format === 'csv' ? <CsvFields /> : null}
    </ActionForm>
  )
}

function CsvFields() {
  return (
    <>
      <div class="field">
        <label for="statement-columns">Columns</label>
        <input
          id="statement-columns"
          name="columns"
          class="input mono"
          placeholder="reference=Purpose,amount=Amount,currency=Currency,date=Booking date"
          required
        />
      </div>
      <div class="row">
        <div class="field">
          <label for="statement-decimal">Decimals after</label>
          <select id="statement-decimal" name="decimal" class="input">
            <option value=".">a full stop: 12.50</option>
            <option value=",">a comma: 12,50</option>
          </select>
        </div>
        <div class="field">
          <label for="statement-dates">Form of dates</label>
          <input id="statement-dates" name="dateFormat" class="input mono" placeholder="YYYY-MM-DD" />
        </div>
        <div class="field">
          <label for="statement-account">Account</label>
          <input id="statement-account" name="account" class="input mono" maxLength={64} />
        </div>
      </div>
    </>
  )
}

function settingsIn(form: FormData): StatementSettings {
  return {
    rail: formText(form, 'rail'),
    format: formText(form, 'format'),
    settlementDays: formText(form, 'settlementDays'),
    account: formText(form, 'account'),
    columns: formText(form, 'columns'),
    decimal: formText(form, 'decimal'),
    dateFormat: formText(form, 'dateFormat'),
  }
}

interface ResultFormProps extends UploadDialogProps {
  readonly compared: Compared
  readonly onBack: () => void
}

function ResultForm({ compared: { file, settings, result }, onBack, onClose, onDone }: ResultFormProps) {
  const { counts, findings, runId, otherRails } = result
  const total =
    counts.paidTwice + counts.paidNotRecorded + counts.recordedNotPaid + counts.amountDiffers + counts.reversed
  const act = async () => {
    const stored = await uploadStatement(file, settings, false)
    onDone()
    return stored.repeated ? 'This statement was compared before. That result stays.' : 'The result is stored.'
  }
  return (
    <ActionForm
      action="Store the result"
      onDone={onClose}
      act={act}
      beside={
        <button type="button" class="button" onClick={onBack}>
          Back
        </button>
      }
    >
      <p>
        {runId === null
          ? 'Nothing is stored yet. Storing records returns and proposes decisions for held payments.'
          : 'The same statement was compared before. Storing changes nothing.'}
      </p>
      <dl class="outcome">
        <Outcome name="Matched" value={counts.matched} />
        <Outcome name="Paid twice" value={counts.paidTwice} />
        <Outcome name="Paid, not recorded" value={counts.paidNotRecorded} />
        <Outcome name="Recorded, not paid" value={counts.recordedNotPaid} />
        <Outcome name="Amount differs" value={counts.amountDiffers} />
        <Outcome name="Reversed" value={counts.reversed} />
        <Outcome name="Unknown entries" value={counts.unknownEntry} />
        {otherRails === 0 ? null : <Outcome name="Of other rails" value={otherRails} />}
      </dl>
      {findings.length === 0 ? null : (
        <>
          <p class="quiet">
            {total > findings.length ? `The first ${findings.length} of ${count(total)} findings:` : null}
            {total <= findings.length ? `${findings.length} ${plural(findings.length, 'finding')}:` : null}
          </p>
          <ul class="findings">
            {findings.map((finding) => (
              <FindingCard key={`${finding.kind} ${finding.outboxId}`} finding={finding} />
            ))}
          </ul>
        </>
      )}
    </ActionForm>
  )
}

function Outcome({ name, value }: { readonly name: string; readonly value: number }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{count(value)}</dd>
    </div>
  )
}
