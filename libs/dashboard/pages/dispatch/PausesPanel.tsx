import { useState } from 'preact/hooks'
import type { Pause } from '../../../http/index.js'
import { listPauses, pauseOutbox, resumeOutbox } from '../../data/api.js'
import { mayI } from '../../data/me.js'
import { refreshStatus } from '../../data/status.js'
import { useResource } from '../../data/useResource.js'
import { ActionForm } from '../../parts/ActionForm.js'
import { Empty } from '../../parts/Empty.js'
import { formText } from '../../parts/formText.js'
import { Loaded } from '../../parts/Loaded.js'
import { Moment } from '../../parts/Moment.js'
import { Panel } from '../../parts/Panel.js'
import { ReasonField, ReasonSheet } from '../../parts/ReasonSheet.js'
import { Scrollable } from '../../parts/Scrollable.js'
import { Sheet } from '../../parts/Sheet.js'

const KINDS = { rail: 'Rail', participant: 'Participant', stream: 'Ordered stream of' } as const

type Kind = keyof typeof KINDS

/** What people have stopped for a while: rails, participants, and ordered streams of participants. */
export function PausesPanel() {
  const pauses = useResource({
    key: 'pauses',
    load: listPauses,
    concerns: ({ type }) => type === 'status',
    everyMs: 5_000,
  })
  const [isPausing, setIsPausing] = useState(false)
  const [chosen, setChosen] = useState<Pause | null>(null)
  const onDone = () => {
    pauses.refresh()
    void refreshStatus()
  }
  return (
    <Panel
      title="Pauses"
      aside={mayI('operate') ? <PauseButton onClick={() => setIsPausing(true)} /> : undefined}
      flush
    >
      <Loaded from={pauses} lines={3}>
        {({ pauses: all }) =>
          all.length === 0 ? (
            <Empty title="Nothing is paused">
              <p>A pause keeps the payments of a rail, a participant or an ordered stream from being claimed.</p>
            </Empty>
          ) : (
            <Scrollable label="Pauses">
              <table class="table-cards" aria-label="Pauses">
                <thead>
                  <tr>
                    <th>What</th>
                    <th>Why</th>
                    <th>By</th>
                    <th>Since</th>
                    <th>
                      <span class="unseen">Actions</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {all.map((pause) => (
                    <PauseRow key={`${pause.kind} ${pause.name}`} pause={pause} onChoose={() => setChosen(pause)} />
                  ))}
                </tbody>
              </table>
            </Scrollable>
          )
        }
      </Loaded>
      {isPausing ? <PauseSheet onClose={() => setIsPausing(false)} onDone={onDone} /> : null}
      {chosen === null ? null : <ResumeSheet pause={chosen} onClose={() => setChosen(null)} onDone={onDone} />}
    </Panel>
  )
}

function PauseButton({ onClick }: { readonly onClick: () => void }) {
  return (
    <button type="button" class="button small" onClick={onClick}>
      Pause something
    </button>
  )
}

function PauseRow({ pause, onChoose }: { readonly pause: Pause; readonly onChoose: () => void }) {
  const { kind, name, reason, pausedBy, pausedAt } = pause
  return (
    <tr>
      <td data-label="What">
        <span class="quiet">{KINDS[kind]}</span> <strong>{name}</strong>
      </td>
      <td data-label="Why">{reason}</td>
      <td data-label="By">{pausedBy}</td>
      <td data-label="Since">
        <Moment at={pausedAt} />
      </td>
      <td class={mayI('operate') ? 'actions' : 'empty-cell'}>
        {mayI('operate') ? (
          <button type="button" class="button small" aria-label={`Resume ${kind} ${name}`} onClick={onChoose}>
            Resume
          </button>
        ) : null}
      </td>
    </tr>
  )
}

interface PauseSheetProps {
  readonly onClose: () => void
  readonly onDone: () => void
}

function PauseSheet({ onClose, onDone }: PauseSheetProps) {
  const [kind, setKind] = useState<Kind>('rail')
  const act = async (form: FormData) => {
    const name = formText(form, 'name')
    const { changed } = await pauseOutbox({ kind, name, reason: formText(form, 'reason') })
    onDone()
    return changed ? `${name} is paused.` : `${name} was paused already.`
  }
  return (
    <Sheet title="Pause something" onClose={onClose}>
      <ActionForm action="Pause it" onDone={onClose} act={act}>
        <p>None of its payments is claimed until it is resumed. What is in flight ends as it would have.</p>
        <fieldset class="choices">
          <legend class="unseen">What is paused</legend>
          {Object.entries(HINTS).map(([value, { label, hint }]) => (
            <label key={value}>
              <input
                type="radio"
                name="kind"
                value={value}
                checked={kind === value}
                onChange={() => setKind(isKind(value) ? value : kind)}
              />
              <span>
                {label}
                <span class="hint">{hint}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <div class="field">
          <label for="pause-name">{kind === 'rail' ? 'Name of the rail' : 'Id of the participant'}</label>
          <input id="pause-name" name="name" class="input mono" required maxLength={128} autocomplete="off" />
        </div>
        <ReasonField />
      </ActionForm>
    </Sheet>
  )
}

const HINTS: Readonly<Record<Kind, { readonly label: string; readonly hint: string }>> = {
  rail: { label: 'A rail', hint: 'Everything that leaves by it.' },
  participant: { label: 'A participant', hint: 'All of its payments, on every rail.' },
  stream: { label: 'An ordered stream', hint: 'Only the payments of a participant that must keep their order.' },
}

function isKind(word: string): word is Kind {
  return Object.hasOwn(KINDS, word)
}

function ResumeSheet({ pause, onClose, onDone }: PauseSheetProps & { readonly pause: Pause }) {
  const { kind, name } = pause
  return (
    <ReasonSheet
      title={`Resume ${name}`}
      action="Resume it"
      explanation="Its payments may be claimed again, at once."
      onClose={onClose}
      act={async (reason) => {
        const { changed } = await resumeOutbox({ kind, name, reason })
        onDone()
        return changed ? `${name} is not paused any more.` : `${name} was not paused.`
      }}
    />
  )
}
