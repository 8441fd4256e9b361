import { signal, type ReadonlySignal } from '@preact/signals'
import { useMemo, useState } from 'preact/hooks'
import type { OutboxItem } from '../../http/index.js'
import { count } from '../data/format.js'
import { hasScope } from '../data/me.js'
import { bulkActionsFor, type BulkAction, type SelectableRow } from '../pages/payment/actionsFor.js'
import { BulkDialog } from '../pages/payment/dialogs.js'

export interface Selection {
  readonly ids: ReadonlySignal<ReadonlySet<string>>
  readonly set: (outboxIds: readonly string[], isSelected: boolean) => void
}

/** @param key identifies the list; a new key clears the selection */
export function useSelection(key: string): Selection {
  return useMemo(createSelection, [key])
}

function createSelection(): Selection {
  const ids = signal<ReadonlySet<string>>(new Set())
  return {
    ids,
    set: (outboxIds, isSelected) => {
      const changed = new Set(ids.peek())
      for (const id of outboxIds) {
        if (isSelected) changed.add(id)
        else changed.delete(id)
      }
      ids.value = changed
    },
  }
}

function maySelect(): boolean {
  return hasScope('operate') || hasScope('ingest')
}

interface SelectBoxProps {
  readonly item: Pick<OutboxItem, 'outboxId' | 'instructionId'>
  readonly selection: Selection
}

/**
 * Checkbox of a row. Reads the selection itself, because a virtual list caches its cells and does not draw them again.
 */
export function SelectBox({ item: { outboxId, instructionId }, selection }: SelectBoxProps) {
  if (!maySelect()) return null
  return (
    <label class="check select">
      <input
        type="checkbox"
        data-select
        aria-label={`Select ${instructionId}`}
        checked={selection.ids.value.has(outboxId)}
        onChange={({ currentTarget }) => selection.set([outboxId], currentTarget.checked)}
      />
    </label>
  )
}

interface SelectionBarProps {
  readonly rows: readonly SelectableRow[]
  readonly selection: Selection
  readonly onDone: () => void
}

const BULK_ACTIONS = [
  ['hold', 'Hold'],
  ['release', 'Release'],
  ['resolve', 'Resolve'],
  ['cancel', 'Cancel'],
  ['redrive', 'Redrive'],
  ['approve', 'Approve'],
] as const

interface Asked {
  readonly action: BulkAction
  readonly rows: readonly SelectableRow[]
  readonly leftOut: number
}

/** Selects all shown rows, and offers the actions that the states of the selected rows allow. */
export function SelectionBar({ rows, selection, onDone }: SelectionBarProps) {
  // Copy of the rows at the time of the click. Later changes of the list do not affect it.
  const [asked, setAsked] = useState<Asked | null>(null)
  // An open dialog stays when the list becomes empty, because its action may still run.
  if (!maySelect() || (rows.length === 0 && asked === null)) return null
  const selected = rows.filter(({ item }) => selection.ids.value.has(item.outboxId))
  const offered = BULK_ACTIONS.flatMap(([action, word]) => {
    const found = selected.filter((row) => bulkActionsFor(row).includes(action))
    return found.length === 0 ? [] : [{ action, word, rows: found, leftOut: selected.length - found.length }]
  })
  return (
    <div class="selection" role="group" aria-label="Selected payments">
      <label class="check">
        <input
          type="checkbox"
          checked={selected.length === rows.length}
          ref={(box) => {
            if (box !== null) box.indeterminate = selected.length > 0 && selected.length < rows.length
          }}
          onChange={({ currentTarget }) =>
            selection.set(
              rows.map(({ item }) => item.outboxId),
              currentTarget.checked,
            )
          }
        />
        {selected.length === 0 ? `Select all ${count(rows.length)} shown` : `${count(selected.length)} selected`}
      </label>
      {offered.map((one) => (
        <button key={one.action} type="button" class="button small" onClick={() => setAsked(one)}>
          {one.word} {count(one.rows.length)}
        </button>
      ))}
      {selected.length > 0 && offered.length === 0 ? (
        <span class="quiet">Their states allow no action, or changed since the list was read.</span>
      ) : null}
      {asked === null ? null : (
        <BulkDialog
          {...asked}
          onClose={() => setAsked(null)}
          onDone={(done) => {
            selection.set(
              done.map(({ outboxId }) => outboxId),
              false,
            )
            onDone()
          }}
        />
      )}
    </div>
  )
}
