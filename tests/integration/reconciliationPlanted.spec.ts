import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { STATEMENT_FORMATS } from '../../libs/reconciliation/index.js'
import { symphony } from '../support/commandLine.js'
import { commitSeed } from '../support/commitSlice.js'
import { useTestDatabase } from '../support/database.js'
import { findDifferences, plantStatement, superuserOf } from '../support/plantedStatements.js'

/** Number of planted errors of each kind. The long form is scenario R27, with 10,000 of each kind. */
const PER_KIND = 60
const db = await useTestDatabase()
let folder = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'symphony-planted-'))
})

afterAll(() => rm(folder, { recursive: true }))

test.each(STATEMENT_FORMATS)(
  'a run over a random %s statement reports every planted error and nothing else',
  async (format) => {
    const seed = `${commitSeed()} ${format}`
    process.stdout.write(`planted ${format}: seed ${seed}\n`)
    const statement = await plantStatement(db, { seed, format, perKind: PER_KIND, folder })
    const { url } = await db.createLogin(`bank_${format}`, { roles: ['symphony_control'] })
    const env = { DATABASE_URL: url, SYMPHONY_SCHEMA: db.schema }
    const { exitCode, stdout, stderr } = await symphony(statement.words, env)
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(JSON.parse(stdout)).toMatchObject({ counts: statement.counts })
    expect(await findDifferences(superuserOf(db), statement)).toEqual([])
  },
)
