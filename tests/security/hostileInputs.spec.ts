import { readFile, rm, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { databaseSource, verifyLedger } from '../../libs/ledger/index.js'
import { commitSeed, commitSlice } from '../support/commitSlice.js'
import { useTestDatabase } from '../support/database.js'
import {
  throughCommandLine,
  throughHttp,
  throughSql,
  throughTypeScript,
  throughWebhook,
  throughWrapper,
  WEBHOOK_SECRET,
  type EntryPoint,
} from '../support/hostileEntryPoints.js'
import { openHttpFixture, type HttpFixture } from '../support/httpFixture.js'
import { HOSTILE_INPUTS } from './hostileInputs.js'
import { HOSTILE_VALUES } from './hostileValues.js'

/*
 * Sends every hostile input through every entry point. hostileAnswers.json lists each expected answer: accepted, or
 * refused with a code. `npm test` tries one slice per commit; `npm run security -- --only S5` tries all.
 */

const EVERY = Number(process.env['SYMPHONY_TEST_HOSTILE_EVERY'] ?? 24)
const SLICE = commitSlice(EVERY)
const ANSWERS = new URL('hostileAnswers.json', import.meta.url)
const INTERFACES = ['sql', 'typescript', 'http', 'cli', 'webhook'] as const
type Interface = (typeof INTERFACES)[number]
type Answers = Readonly<Record<string, Partial<Record<Interface, string>>>>

/** Places in an instruction for a JavaScript value. */
const PLACES: Readonly<Record<string, (value: unknown) => object>> = {
  payload: (payload) => ({ payload }),
  'payload.a': (a) => ({ payload: { a } }),
  'payload.list[1]': (one) => ({ payload: { list: [0, one] } }),
  'payload.a.b': (b) => ({ payload: { a: { b } } }),
  instructionId: (instructionId) => ({ instructionId }),
  participantId: (participantId) => ({ participantId }),
  idempotencyKey: (idempotencyKey) => ({ idempotencyKey }),
  railType: (railType) => ({ railType }),
  notBefore: (notBefore) => ({ notBefore }),
  ordered: (ordered) => ({ ordered }),
}

const db = await useTestDatabase()
let fixture: HttpFixture
let folder: string
let expected: Answers
const given: Record<string, Partial<Record<Interface, string>>> = {}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'symphony-hostile-'))
  expected = JSON.parse(await readFile(ANSWERS, 'utf8').catch(() => '{}'))
  fixture = await openHttpFixture(db, {
    limits: { requestsPerSecond: 100_000 },
    webhooks: {
      ingest: db.as('symphony_ingest'),
      sources: {
        hostile: { secrets: [WEBHOOK_SECRET], messageIdPointer: '/instructionId', topicPointer: '/railType' },
      },
    },
  })
  const { url } = await db.createLogin('hostile', { roles: ['symphony_ingest'] })
  const entryPoints: Readonly<Record<Interface, EntryPoint>> = {
    sql: throughSql(db, await db.connect('symphony_ingest')),
    typescript: throughTypeScript(db),
    http: throughHttp(fixture),
    cli: throughCommandLine(folder, { DATABASE_URL: url, SYMPHONY_SCHEMA: db.schema }),
    webhook: throughWebhook(fixture),
  }
  const tried = HOSTILE_INPUTS.filter((_, index) => index % EVERY === SLICE)
  for (const input of tried) {
    const answers: Partial<Record<Interface, string>> = {}
    for (const through of INTERFACES) {
      const answer = await entryPoints[through](input)
      if (answer !== undefined) answers[through] = answer
    }
    given[input.name] = answers
  }
  await tryValues()
  const counts = INTERFACES.map(
    (through) => `${through} ${Object.values(given).filter((answers) => through in answers).length}`,
  )
  process.stdout.write(
    `hostile inputs: ${counts.join(', ')}; slice ${SLICE + 1} of ${EVERY}, SYMPHONY_TEST_SLICE=${commitSeed()}\n`,
  )
  // After an intended change, write the answers again and review the difference.
  if (process.env['SYMPHONY_TEST_WRITE_ANSWERS'] === '1') {
    expected = { ...expected, ...given }
    const lines = Object.entries(expected).map(
      ([name, answers]) => `${JSON.stringify(name)}: ${JSON.stringify(answers)}`,
    )
    await writeFile(ANSWERS, `{\n${lines.join(',\n')}\n}\n`)
  }
})
afterAll(async () => {
  await fixture.close()
  await rm(folder, { recursive: true })
})

async function tryValues(): Promise<void> {
  const places = Object.entries(PLACES).flatMap(([place, at]) =>
    Object.entries(HOSTILE_VALUES).map(([what, value]) => ({ name: `${place} = ${what}`, at, value })),
  )
  for (const [index, { name, at, value }] of places.entries()) {
    if (index % EVERY !== SLICE) continue
    const instruction = {
      instructionId: `v-${index}`,
      participantId: 'p',
      idempotencyKey: `v-${index}`,
      railType: 'r',
      payload: {},
      ...at(value()),
    }
    given[name] = { typescript: await throughWrapper(db, instruction) }
  }
}

describe.each(INTERFACES)('the entry point %s', (through) => {
  test('gives each hostile input the answer that hostileAnswers.json lists', () => {
    const differing = Object.entries(given).flatMap(([name, answers]) =>
      answers[through] === expected[name]?.[through]
        ? []
        : [`${name}: ${answers[through]}, expected ${expected[name]?.[through]}`],
    )
    expect(differing).toEqual([])
  })

  test('refuses with documented codes only, never with an internal error', () => {
    const wrong = Object.entries(given).filter(
      ([, { [through]: answer }]) => answer !== undefined && !TYPED[through].test(answer),
    )
    expect(wrong).toEqual([])
  })
})

/** Valid answers: accepted, or a refusal with a code. */
const TYPED: Readonly<Record<Interface, RegExp>> = {
  // The types of PostgreSQL refuse invalid JSON, times and booleans before our function runs.
  sql: /^(?:accepted|22023|22P02|22P05|22007|22008|22009|22021|22003|54001)$/,
  typescript: /^(?:accepted|INVALID_ARGUMENT|ARGUMENT_OUT_OF_RANGE|IDEMPOTENCY_CONFLICT|22023|INVALID_PARAMETER)$/,
  http: /^(?:accepted|400 MALFORMED_JSON|413 BODY_TOO_LARGE|422 INVALID_INSTRUCTION|409 IDEMPOTENCY_CONFLICT)$/,
  cli: /^(?:accepted|nothing|2 (?:INVALID_ARGUMENT|ARGUMENT_OUT_OF_RANGE)|1 (?:INVALID_PARAMETER|IDEMPOTENCY_CONFLICT))$/,
  webhook: /^(?:accepted|400 MALFORMED_JSON|413 BODY_TOO_LARGE|422 INVALID_MESSAGE|409 CONTENT_DIFFERS)$/,
}

test('hostileAnswers.json lists exactly the inputs of this spec', () => {
  const names = new Set(HOSTILE_INPUTS.map(({ name }) => name))
  const values = Object.keys(PLACES).flatMap((place) => Object.keys(HOSTILE_VALUES).map((what) => `${place} = ${what}`))
  for (const name of values) names.add(name)
  expect(names.size).toBe(HOSTILE_INPUTS.length + values.length)
  expect(Object.keys(expected).toSorted()).toEqual([...names].toSorted())
  for (const through of INTERFACES) {
    expect([
      through,
      Object.values(expected).filter((answers) => through in answers).length >= 500 || through === 'sql',
    ]).toEqual([through, true])
  }
})

test('accepted inputs are stored as payments, and verification of the ledger finds no break', async () => {
  const report = await verifyLedger(databaseSource(db.as('symphony_auditor')), {})
  expect(report.breaks).toEqual([])
  expect(report.identities).toBeGreaterThan(0)
})
