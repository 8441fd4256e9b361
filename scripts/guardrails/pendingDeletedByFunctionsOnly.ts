import type { Guardrail } from './guardrail.js'
import { isTestFile } from './repository.js'
import { sqlOf } from './sqlFragments.js'
import { tableWrites } from './tableWrites.js'

/** The SQL functions delete an item when they record its terminal outcome. Any other DELETE would lose a payment. */
export const pendingDeletedByFunctionsOnly: Guardrail = {
  name: 'payment_outbox_pending is deleted from only inside functions',
  check: (repository) =>
    repository
      .filter((file) => !isTestFile(file.path))
      .flatMap((file) =>
        sqlOf(file)
          .fragments.filter(({ inFunction }) => inFunction === undefined || inFunction === 'DO')
          .filter(({ node }) => tableWrites(node).some(({ verb, table }) => REMOVES.has(verb) && table === QUEUE))
          .map(({ line }) => ({ file: file.path, line, message: `removes rows of ${QUEUE} outside its functions` })),
      ),
}

const QUEUE = 'payment_outbox_pending'
const REMOVES: ReadonlySet<string> = new Set(['DELETE', 'TRUNCATE', 'MERGE'])
