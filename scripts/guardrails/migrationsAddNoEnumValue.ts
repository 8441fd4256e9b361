import type { Guardrail } from './guardrail.js'
import { child, text } from './sqlParser.js'
import { sqlOf } from './sqlFragments.js'

/**
 * PostgreSQL refuses a new enum value in the transaction that adds it, unless this transaction also creates the type.
 * So such a migration works in a new database and fails in every upgrade.
 */
export const migrationsAddNoEnumValue: Guardrail = {
  name: 'no migration adds a value to an enum',
  check: (repository) =>
    repository
      .filter(({ path }) => path.startsWith('schema/migrations/'))
      .flatMap((file) =>
        sqlOf(file)
          .fragments.filter(({ node }) => {
            const statement = child(node, 'AlterEnumStmt')
            return text(statement, 'newVal') !== undefined && text(statement, 'oldVal') === undefined
          })
          .map(({ line }) => ({
            file: file.path,
            line,
            message: 'adds an enum value; use a text column with a CHECK (schema/migrations/README.md)',
          })),
      ),
}
