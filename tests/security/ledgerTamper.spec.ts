import { beforeAll, expect, test } from 'vitest'
import { seededRandom } from '../../libs/cli/commands/demo/seededRandom.js'
import { describeBreak, type Checkpoint } from '../../libs/ledger/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { commitSeed } from '../support/commitSlice.js'
import { LedgerFixture } from '../support/ledgerFixture.js'
import { BLOCK_ROWS, columnsOf, disableGuards, flipColumn, tamper, TAMPER_KINDS } from '../support/ledgerTampers.js'
import { openConnection, type Connection } from '../support/race.js'

/*
 * Tampers with rows and blocks at random, as a superuser can. Verification against blocks and checkpoints must find
 * each change and name its place. `npm run ledger:tamper` tries many more.
 */

const COUNT = Number(process.env['SYMPHONY_TEST_TAMPERS'] ?? 66)
const SEED = process.env['SYMPHONY_TEST_TAMPER_SEED'] ?? String(commitSeed())
const CLEAN_RUNS = Number(process.env['SYMPHONY_TEST_CLEAN_RUNS'] ?? 20)
/** Time limit for thousands of tampers. */
const TIMEOUT_MS = 3_600_000

const fixture = closeAfterAll(await LedgerFixture.open())
let checkpoints: readonly Checkpoint[]
let superuser: Connection
beforeAll(async () => {
  for (let round = 0; round < 3; round += 1) {
    await fixture.fill()
    await fixture.sealAll(BLOCK_ROWS)
    await fixture.checkpoint()
  }
  checkpoints = await fixture.checkpoints()
  superuser = await openConnection(fixture.db)
})

test('repeated verification of an untouched ledger finds no break', async () => {
  for (let run = 0; run < CLEAN_RUNS; run += 1) {
    const { breaks, openRows, openBlocks } = await fixture.verify(checkpoints)
    expect({ breaks, openRows, openBlocks }).toEqual({ breaks: [], openRows: 0, openBlocks: 0 })
  }
})

test.each(['identities', 'attempts', 'events'])(
  'verification finds a row of %s that was moved to another transaction',
  async (table) => {
    for (const xid of ['recorded_xid - 1', 'recorded_xid + 1', '9000000000000000', '-1']) {
      await superuser.query('BEGIN')
      await disableGuards(superuser)
      await superuser.query(
        `UPDATE payment_outbox_${table} SET recorded_xid = ${xid} WHERE ctid = (SELECT ctid FROM payment_outbox_${table} LIMIT 1)`,
      )
      const { breaks } = await fixture.verify(checkpoints, superuser)
      await superuser.query('ROLLBACK')
      expect(breaks.map(({ why }) => why).join()).toMatch(/differs from what was sealed|sealed, and missing/)
    }
  },
)

test.each([
  'reconciliation_runs',
  'reconciliation_entries',
  'reconciliation_findings',
  'reconciliation_closings',
] as const)('verification finds a change of each column of %s, and names the run or finding', async (table) => {
  const missed: string[] = []
  for (const column of await columnsOf(superuser, table)) {
    await superuser.query('BEGIN')
    await disableGuards(superuser)
    // Drops constraints, as a superuser can, because they would refuse some values.
    await superuser.query(`ALTER TABLE ${table} DROP CONSTRAINT IF EXISTS ${table}_known_kind`)
    await superuser.query(`ALTER TABLE ${table} DROP CONSTRAINT IF EXISTS ${table}_known_severity`)
    await superuser.query(`ALTER TABLE ${table} DROP CONSTRAINT IF EXISTS ${table}_known_format`)
    const names = await flipColumn(superuser, table, column)
    const { breaks } = await fixture.verify(checkpoints, superuser)
    await superuser.query('ROLLBACK')
    if (!breaks.some((found) => found.table.startsWith('reconciliation_') && names.includes(found.subject)))
      missed.push(column.name)
  }
  expect(missed).toEqual([])
})

test(
  'verification finds every random change by a superuser, and names the changed row or block',
  async () => {
    const random = seededRandom(SEED)
    const missed: string[] = []
    const found: Record<string, number> = {}
    for (let count = 0; count < COUNT; count += 1) {
      const kind = TAMPER_KINDS[count % TAMPER_KINDS.length]!
      await superuser.query('BEGIN')
      await disableGuards(superuser)
      const { description, names } = await tamper(superuser, kind, random)
      const { breaks } = await fixture.verify(checkpoints, superuser)
      await superuser.query('ROLLBACK')
      if (breaks.some(names)) found[kind] = (found[kind] ?? 0) + 1
      else
        missed.push(
          `${count} ${kind}: ${description}, and verification found: ${breaks.map(describeBreak).join(' · ') || 'nothing'}`,
        )
    }
    process.stdout.write(
      `tampers from seed ${SEED}: ${COUNT - missed.length} of ${COUNT} found ${JSON.stringify(found)}\n`,
    )
    expect(missed.join('\n')).toBe('')
    expect((await fixture.verify(checkpoints)).breaks).toEqual([])
  },
  TIMEOUT_MS,
)
