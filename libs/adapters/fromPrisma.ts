import type { Queryable, Rows } from '../db/index.js'
import { asTexts } from './asText.js'
import { requireMethod } from './requireMethod.js'
import { rowsIn } from './rowsIn.js'

/** What is needed of Prisma: the client that `prisma.$transaction(async (tx) => …)` gives its callback. */
export interface PrismaTransaction {
  $queryRawUnsafe(query: string, ...values: unknown[]): PromiseLike<unknown>
}

export function fromPrisma(tx: PrismaTransaction): Queryable {
  requireMethod('tx', tx, '$queryRawUnsafe', 'the client of an interactive transaction of Prisma')
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

/**
 * Prisma throws an error of its own, with a code of its own. What the server said is in its `meta`, as the driver adapter
 * noted it, and becomes an error again here.
 */
function serverErrorOf(error: unknown): unknown {
  const reported = property(property(property(error, 'meta'), 'driverAdapterError'), 'cause')
  const code = property(reported, 'originalCode')
  if (typeof code !== 'string') return error
  const said = new Error(textOf(property(reported, 'originalMessage')) ?? 'the server refused the statement', {
    cause: error,
  })
  return Object.assign(said, {
    code,
    severity: textOf(property(reported, 'severity')) ?? 'ERROR',
    detail: textOf(property(reported, 'detail')),
    hint: textOf(property(reported, 'hint')),
  })
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function property(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
