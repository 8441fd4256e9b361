import type { Guardrail } from './guardrail.js'
import { isTestFile } from './repository.js'
import { sqlOf } from './sqlFragments.js'
import { tableWrites } from './tableWrites.js'

/** A lease marks an item as in flight. A stored DISPATCHING row could contradict the lease after a crash. */
export const dispatchingIsNeverStored: Guardrail = {
  name: 'nothing writes the state DISPATCHING',
  check: (repository) =>
    repository
      .filter((file) => !isTestFile(file.path))
      .flatMap((file) =>
        sqlOf(file)
          .fragments.filter(({ node }) => tableWrites(node).some((write) => mentionsDispatching(write.node)))
          .map(({ line }) => ({ file: file.path, line, message: 'writes DISPATCHING; in flight means leased' })),
      ),
}

function mentionsDispatching(node: unknown): boolean {
  return JSON.stringify(node).includes('"sval":"DISPATCHING"')
}
