import type { ComponentChildren } from 'preact'
import type { PagesHandle } from '../data/usePages.js'
import { ProblemNote } from './ProblemNote.js'
import { Skeleton } from './Skeleton.js'
import { Table, type TableProps } from './Table.js'

interface PagedTableProps<T> {
  readonly label: string
  readonly from: PagesHandle<T>
  readonly columns: TableProps['columns']
  readonly row: (value: T) => ComponentChildren
  readonly empty: ComponentChildren
}

/** Table that loads further pages on request and shows all loaded rows. */
export function PagedTable<T>({ label, from, columns, row, empty }: PagedTableProps<T>) {
  const { rows, next, problem, isLoading } = from.state.value
  return (
    <>
      {problem === undefined ? null : <ProblemNote problem={problem} onRetry={from.refresh} />}
      {rows.length > 0 ? (
        <Table label={label} columns={columns}>
          {rows.map(row)}
        </Table>
      ) : next === undefined ? (
        problem === undefined ? (
          <Skeleton lines={6} />
        ) : null
      ) : (
        empty
      )}
      {typeof next === 'string' ? (
        <p class="more">
          <button type="button" class="button small" disabled={isLoading} onClick={from.more}>
            Show more
          </button>
        </p>
      ) : null}
    </>
  )
}
