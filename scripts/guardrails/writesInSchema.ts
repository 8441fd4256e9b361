import type { Guardrail } from './guardrail.js'
import { isTestFile } from './repository.js'
import { COMPUTED } from './sqlGuess.js'
import { sqlOf } from './sqlFragments.js'
import { ownTables, tableWrites } from './tableWrites.js'

/** Only the functions of schema/ write the tables, because they enforce every state change. */
export const writesInSchema: Guardrail = {
  name: 'our tables are written only by schema/',
  check: (repository) => {
    const ours = ownTables(repository)
    return repository
      .filter((file) => !isTestFile(file.path) && !file.path.startsWith('schema/'))
      .flatMap((file) =>
        sqlOf(file).fragments.flatMap(({ node, line }) =>
          tableWrites(node)
            .filter(({ table }) => ours.has(table) || table === COMPUTED)
            .filter(({ verb }) => !(file.path === TIME_OF_TESTS && verb === 'UPDATE'))
            .map(({ verb, table }) => ({
              file: file.path,
              line,
              message: `${verb} of ${table === COMPUTED ? 'a table with a computed name' : table}; call a function of schema/ instead`,
            })),
        ),
      )
  },
}

/**
 * Library file that may write the tables: it moves times in test databases. No function of schema/ may offer this
 * write.
 */
const TIME_OF_TESTS = 'libs/testing/db.ts'
