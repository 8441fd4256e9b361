import type { Guardrail } from './guardrail.js'
import { isExample, isProof, isTypeScript } from './repository.js'
import { sqlOf } from './sqlFragments.js'

/**
 * SQL is read, diffed and reviewed as SQL: in `schema/`, with only the calls to it in TypeScript. A room that also answers
 * people's questions has them in `reads.ts` beside `db.ts`, or in a folder `reads/`: SELECTs for lists and pages, which no state
 * depends on.
 */
export const sqlInItsRooms: Guardrail = {
  name: 'SQL text stays in schema/, libs/db, libs/*/db.ts and libs/*/reads.ts',
  check: (repository) =>
    repository
      .filter(
        (file) => isTypeScript(file) && !isProof(file.path) && !isExample(file.path) && !SQL_ROOMS.test(file.path),
      )
      .flatMap((file) =>
        sqlOf(file).literalLines.map((line) => ({
          file: file.path,
          line,
          message:
            'SQL text; it belongs in schema/, or in the db.ts of its room if it calls a function or view, or its reads.ts',
        })),
      ),
}

/** The parser of these checks is the one other place: it completes an expression to a statement. */
const SQL_ROOMS = /^libs\/(?:db\/|[^/]+\/(?:db|reads|reads\/\w+)\.ts$)|^scripts\/guardrails\/sqlParser\.ts$/
