/**
 * Adapters that make transactions of other libraries a `tx` for Symphony. A `pg` client needs none.
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
 * Each adapter declares the few methods that it calls and imports no library. A payment is committed or rolled back
 * with the caller's transaction or savepoint. Some libraries put the statement and its values into error messages. The
 * adapters remove both, so that no payload reaches a log.
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
