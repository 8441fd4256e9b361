import type { Guardrail } from './guardrail.js'
import { isExample, isTestFile, isTypeScript } from './repository.js'
import { sqlOf } from './sqlFragments.js'

/**
 * SQL belongs in `schema/`, where people review it as SQL. TypeScript only calls it, in the `db.ts` of a module.
 * SELECTs for lists, pages and checks are in `reads.ts` or in a folder `reads/`.
 */
export const sqlInAllowedFiles: Guardrail = {
  name: 'SQL text stays in schema/, libs/db, libs/*/db.ts and libs/*/reads.ts',
  check: (repository) =>
    repository
      .filter(
        (file) => isTypeScript(file) && !isTestFile(file.path) && !isExample(file.path) && !SQL_FILES.test(file.path),
      )
      .flatMap((file) =>
        sqlOf(file).literalLines.map((line) => ({
          file: file.path,
          line,
          message:
            'SQL text; it belongs in schema/, or in the db.ts of its module if it calls a function or view, or its reads.ts',
        })),
      ),
}

/** Allowed files. `sqlParser.ts` is among them because it completes expressions to statements. */
const SQL_FILES = /^libs\/(?:db\/|[^/]+\/(?:db|reads|reads\/\w+)\.ts$)|^scripts\/guardrails\/sqlParser\.ts$/
