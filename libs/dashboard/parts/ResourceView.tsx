import type { ComponentChildren } from 'preact'
import type { ResourceHandle } from '../data/useResource.js'
import { ProblemNote } from './ProblemNote.js'
import { Skeleton } from './Skeleton.js'

interface ResourceViewProps<T> {
  readonly from: ResourceHandle<T>
  /** Number of lines to reserve space for. */
  readonly lines?: number
  readonly children: (value: T) => ComponentChildren
}

/** Shows a skeleton, the problem or the value. After a problem, the outdated value stays below it. */
export function ResourceView<T>({ from, lines = 6, children }: ResourceViewProps<T>) {
  const { value, problem } = from.state.value
  return (
    <>
      {problem === undefined ? null : <ProblemNote problem={problem} onRetry={from.refresh} />}
      {value !== undefined ? children(value) : problem === undefined ? <Skeleton lines={lines} /> : null}
    </>
  )
}
