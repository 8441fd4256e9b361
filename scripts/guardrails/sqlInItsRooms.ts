import type { Guardrail } from './guardrail.js'
import { isExample, isProof, isTypeScript } from './repository.js'
import { sqlOf } from './sqlFragments.js'

/** SQL is read, diffed and reviewed as SQL: in `schema/`, with only the calls to it in TypeScript. */
export const sqlInItsRooms: Guardrail = {
  name: 'SQL text stays in schema/, libs/db and libs/*/db.ts',
  check: (repository) =>
    repository
      .filter(
        (file) => isTypeScript(file) && !isProof(file.path) && !isExample(file.path) && !SQL_ROOMS.test(file.path),
      )
      .flatMap((file) =>
        sqlOf(file).literalLines.map((line) => ({
          file: file.path,
          line,
          message: 'SQL text; it belongs in schema/, or in the db.ts of its room if it calls a function or view',
        })),
      ),
}

/** The parser of these checks is the one other place: it completes an expression to a statement. */
const SQL_ROOMS = /^libs\/(?:db\/|[^/]+\/db\.ts$)|^scripts\/guardrails\/sqlParser\.ts$/
