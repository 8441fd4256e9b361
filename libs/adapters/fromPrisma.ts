import type { Queryable, Rows } from '../db/index.js'
import { asTexts } from './parameters.js'
import { property, requireMark, requireMethod } from './requireMethod.js'
import { rowsIn } from './rows.js'
import { serverError, textIn } from './serverError.js'

/** Client in the callback of `prisma.$transaction(async (tx) => …)`. */
export interface PrismaTransaction {
  /** Present only on the PrismaClient itself. */
  readonly $connect?: never
  $queryRawUnsafe(query: string, ...values: unknown[]): PromiseLike<unknown>
}

export function fromPrisma(tx: PrismaTransaction): Queryable {
  requireMethod('tx', tx, '$queryRawUnsafe', 'the client of an interactive transaction of Prisma')
  requireMark('tx', tx.$connect === undefined, 'the tx of prisma.$transaction(async (tx) => …)', 'the PrismaClient')
  return {
    query: async <R>(text: string, values?: readonly unknown[]): Promise<Rows<R>> => {
      try {
        return { rows: rowsIn<R>(await tx.$queryRawUnsafe(text, ...asTexts(values))) }
      } catch (error) {
        throw serverErrorOf(error)
      }
    },
  }
}

/** Restores the server's error. Prisma throws an error with its own code and puts the driver's report into `meta`. */
function serverErrorOf(error: unknown): unknown {
  const reported = property(property(property(error, 'meta'), 'driverAdapterError'), 'cause')
  const code = textIn(reported, 'originalCode')
  if (code === undefined) return error
  return serverError(textIn(reported, 'originalMessage') ?? 'the server refused the statement', {
    code,
    severity: textIn(reported, 'severity') ?? 'ERROR',
    detail: textIn(reported, 'detail'),
    hint: textIn(reported, 'hint'),
  })
}
