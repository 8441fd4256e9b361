/**
 * Transactions of other libraries, as something that can query. A `pg` client needs none of this: it is one already.
 *
 * | library | `tx` |
 * | --- | --- |
 * | `pg` | the client |
 * | postgres.js | `fromPostgresJs(sql)` of `sql.begin`, `sql.savepoint` |
 * | Drizzle | `fromDrizzle(tx, sql)` of `db.transaction` |
 * | Kysely | `fromKysely(trx)` of `db.transaction().execute` |
 * | Knex | `fromKnex(trx)` of `knex.transaction` |
 * | Prisma | `fromPrisma(tx)` of `prisma.$transaction` |
 * | TypeORM | `fromTypeOrm(manager)` of `dataSource.transaction` |
 *
 * Each says which few methods it needs and imports nothing: the library is the caller's own. What is enqueued through it is
 * committed or rolled back with the caller's transaction, and with a savepoint of it. What the server refuses is handed on as
 * the server said it, without the statement and the values that some libraries write into their messages: a payload has no
 * place in a log.
 */
export { fromDrizzle } from './fromDrizzle.js'
export type { DrizzleSql, DrizzleTransaction } from './fromDrizzle.js'
export { fromKnex } from './fromKnex.js'
export type { KnexTransaction } from './fromKnex.js'
export { fromKysely } from './fromKysely.js'
export type { KyselyTransaction } from './fromKysely.js'
export { fromPostgresJs } from './fromPostgresJs.js'
export type { PostgresJsTransaction } from './fromPostgresJs.js'
export { fromPrisma } from './fromPrisma.js'
export type { PrismaTransaction } from './fromPrisma.js'
export { fromTypeOrm } from './fromTypeOrm.js'
export type { TypeOrmTransaction } from './fromTypeOrm.js'
