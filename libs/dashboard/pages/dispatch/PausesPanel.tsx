import { useState } from 'preact/hooks'
import type { Pause } from '../../../http/index.js'
import { listPauses, pauseOutbox, resumeOutbox } from '../../data/api.js'
import { hasScope } from '../../data/me.js'
import { refreshStatus } from '../../data/status.js'
import { useResource } from '../../data/useResource.js'
import { ActionForm } from '../../parts/ActionForm.js'
import { Empty } from '../../parts/Empty.js'
import { formText } from '../../parts/formText.js'
import { KindChoices } from '../../parts/KindChoices.js'
import { ResourceView } from '../../parts/ResourceView.js'
import { RelativeTime } from '../../parts/RelativeTime.js'
import { Panel } from '../../parts/Panel.js'
import { ReasonField, ReasonDialog } from '../../parts/ReasonDialog.js'
import { Dialog } from '../../parts/Dialog.js'
import { Table } from '../../parts/Table.js'

const KINDS = { rail: 'Rail', participant: 'Participant', stream: 'Ordered stream of', all: 'Everything' } as const

type Kind = keyof typeof KINDS

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
      aside={hasScope('operate') ? <PauseButton onClick={() => setIsPausing(true)} /> : undefined}
      flush
    >
      <ResourceView from={pauses} lines={3}>
        {({ pauses: all }) =>
          all.length === 0 ? (
            <Empty title="Nothing is paused">
              <p>A pause stops claims of payments for a rail, a participant or an ordered stream.</p>
            </Empty>
          ) : (
            <Table label="Pauses" columns={['What', 'Why', 'By', 'Since', '']}>
              {all.map((pause) => (
                <PauseRow key={`${pause.kind} ${pause.name}`} pause={pause} onChoose={() => setChosen(pause)} />
              ))}
            </Table>
          )
        }
      </ResourceView>
      {isPausing ? (
        <PauseDialog
          rails={pauses.state.value.value?.rails ?? []}
          onClose={() => setIsPausing(false)}
          onDone={onDone}
        />
      ) : null}
      {chosen === null ? null : <ResumeDialog pause={chosen} onClose={() => setChosen(null)} onDone={onDone} />}
    </Panel>
  )
}

function PauseButton({ onClick }: { readonly onClick: () => void }) {
  return (
    <button type="button" class="button small" onClick={onClick}>
      New pause
    </button>
  )
}

function PauseRow({ pause, onChoose }: { readonly pause: Pause; readonly onChoose: () => void }) {
  const { kind, name, reason, pausedBy, pausedAt } = pause
  return (
    <tr>
      <td data-label="What">
        {kind === 'all' ? (
          <strong>Everything</strong>
        ) : (
          <>
            <span class="quiet">{KINDS[kind]}</span> <strong>{name}</strong>
          </>
        )}
      </td>
      <td data-label="Why" class="text">
        {reason}
      </td>
      <td data-label="By">{pausedBy}</td>
      <td data-label="Since">
        <RelativeTime at={pausedAt} />
      </td>
      <td class={hasScope('operate') ? 'actions' : 'empty-cell'}>
        {hasScope('operate') ? (
          <button
            type="button"
            class="button small"
            aria-label={kind === 'all' ? 'Resume everything' : `Resume ${kind} ${name}`}
            onClick={onChoose}
          >
            Resume
          </button>
        ) : null}
      </td>
    </tr>
  )
}

interface PauseDialogProps {
  readonly onClose: () => void
  readonly onDone: () => void
}

function PauseDialog({ rails, onClose, onDone }: PauseDialogProps & { readonly rails: readonly string[] }) {
  const [kind, setKind] = useState<Kind>('rail')
  const act = async (form: FormData) => {
    const reason = formText(form, 'reason')
    const name = kind === 'all' ? undefined : formText(form, 'name')
    const { changed } = await pauseOutbox(
      name === undefined ? { kind, reason } : { kind, name, reason, force: form.has('force') },
    )
    onDone()
    return `${name ?? 'Everything'} ${changed ? 'is paused' : 'was paused already'}.`
  }
  return (
    <Dialog title="New pause" onClose={onClose}>
      <ActionForm action="Pause it" onDone={onClose} act={act}>
        <p>Workers claim none of its payments and messages until it is resumed. Calls in progress continue.</p>
        <KindChoices legend="What is paused" kinds={HINTS} chosen={kind} onChoose={setKind} />
        {kind === 'all' ? (
          <label class="check">
            <input type="checkbox" required /> Stop every rail: no payment and no message is sent
          </label>
        ) : (
          <>
            <div class="field">
              <label for="pause-name">{kind === 'rail' ? 'Name of the rail' : 'Id of the participant'}</label>
              <input
                id="pause-name"
                name="name"
                class="input mono"
                list={kind === 'rail' ? 'known-rails' : undefined}
                required
                maxLength={128}
                autocomplete="off"
              />
              <datalist id="known-rails">
                {rails.map((rail) => (
                  <option key={rail} value={rail} />
                ))}
              </datalist>
            </div>
            <label class="check">
              <input type="checkbox" name="force" /> Accept a name that no payment has used yet
            </label>
          </>
        )}
        <ReasonField />
      </ActionForm>
    </Dialog>
  )
}

const HINTS: Readonly<Record<Kind, { readonly label: string; readonly hint: string }>> = {
  rail: { label: 'A rail', hint: 'All its payments and messages.' },
  participant: { label: 'A participant', hint: 'All of its payments, on every rail.' },
  stream: { label: 'An ordered stream', hint: 'Only the payments of a participant that must keep their order.' },
  all: { label: 'Everything', hint: 'All rails, payments and messages. Unlike a freeze, it makes no outcome unknown.' },
}

function ResumeDialog({ pause, onClose, onDone }: PauseDialogProps & { readonly pause: Pause }) {
  const { kind, name } = pause
  const subject = kind === 'all' ? 'Everything' : name
  return (
    <ReasonDialog
      title={kind === 'all' ? 'Resume everything' : `Resume ${name}`}
      action={kind === 'all' ? 'Resume everything' : 'Resume it'}
      explanation={
        kind === 'all'
          ? 'Workers claim due payments and messages again, at once. Other pauses stay.'
          : kind === 'stream'
            ? 'Its payments may be claimed again, at once, in order. A failed payment goes first only if its redrive is approved before.'
            : 'Its payments may be claimed again, at once.'
      }
      onClose={onClose}
      act={async (reason) => {
        const { changed } = await resumeOutbox({ kind, name, reason })
        onDone()
        return changed ? `${subject} is not paused any more.` : `${subject} was not paused.`
      }}
    />
  )
}
