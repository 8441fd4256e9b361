import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  buildStatementPayments,
  generateStatement,
  PLANTED_KINDS,
  type GenerateStatementOptions,
} from '../../libs/cli/commands/statements/generateStatement.js'
import { STATEMENT_FORMATS } from '../../libs/reconciliation/index.js'
import { builtPath } from '../support/builtPath.js'

const SEEDS = Array.from({ length: 20 }, (_, n) => `seed ${n}`)
const ERRORS = {
  paidTwice: 5,
  paidNotRecorded: 4,
  recordedNotPaid: 3,
  amountDiffers: 6,
  reversed: 7,
  unknownEntry: 8,
}

describe('a generated statement', () => {
  test.each(STATEMENT_FORMATS)(
    'is the same file for the same seed, and another file for another seed: format %s',
    (format) => {
      const [first, again, other] = ['a', 'a', 'b'].map((seed) => [...generate({ format, seed }).text()].join(''))
      expect(again).toBe(first)
      expect(other).not.toBe(first)
    },
  )

  test.each(SEEDS)('has every planted error, and expects one finding for each: %s', (seed) => {
    const { counts, findings } = generate({ seed })
    expect(counts).toEqual({ ...ERRORS, matched: 190 - 5 - 3 - 6 })
    for (const kind of PLANTED_KINDS) {
      const own = findings.filter((finding) => finding.kind === kind)
      expect(new Set(own.map(({ outboxId, bankReference }) => outboxId ?? bankReference)).size).toBe(ERRORS[kind])
    }
  })

  test.each(SEEDS)('names a matched payment in one booked debit, and a missing payment in none: %s', (seed) => {
    const payments = buildStatementPayments(200, 10, seed)
    const { text, findings } = generateStatement({ payments, errors: ERRORS, format: 'ndjson', seed })
    const debits = new Map<string, number>()
    for (const line of [...text()].join('').trim().split('\n')) {
      const { reference, direction, status }: Record<string, string> = JSON.parse(line)
      const id = /[0-9a-f-]{32,36}/i
        .exec(reference ?? '')?.[0]
        .replaceAll('-', '')
        .toLowerCase()
      if (id !== undefined && direction === 'debit' && status === 'booked') debits.set(id, (debits.get(id) ?? 0) + 1)
    }
    const kinds = new Map(findings.map(({ outboxId, kind }) => [outboxId, kind]))
    const wrong = payments.filter(({ outboxId, state }) => {
      const kind = kinds.get(outboxId)
      const found = debits.get(outboxId.replaceAll('-', '')) ?? 0
      if (kind === 'paidTwice') return found < 2
      const isAbsent = kind === 'recordedNotPaid' || (kind === undefined && state !== 'DISPATCHED')
      return found !== (isAbsent ? 0 : 1)
    })
    expect(wrong).toEqual([])
  })

  test('is refused if there are fewer payments than errors', () => {
    expect(() => generate({ errors: { paidNotRecorded: 11 } })).toThrow(
      'expected more payments that are not DISPATCHED',
    )
    expect(() => generate({ errors: { paidTwice: 191 } })).toThrow('expected more payments that are DISPATCHED')
  })
})

describe('npm run statements', () => {
  test('writes a statement and its expected findings, and prints seed and counts', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'symphony-statements-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const out = join(folder, 'statement.xml')
    const { stdout } = await statements('--payments', '50', '--errors', 'paidTwice=3', '--seed', '7', '--out', out)
    expect(stdout).toContain('seed 7')
    const expected = JSON.parse(await readFile(`${out}.expected.json`, 'utf8'))
    expect(expected.counts).toMatchObject({ matched: 47, paidTwice: 3 })
    expect((await readFile(out, 'utf8')).split('<TxDtls>').length - 1).toBe(expected.entries)
  })

  test('refuses an unknown kind of error with exit code 2 and lists the known kinds', async () => {
    await expect(statements('--errors', 'paidThrice=1')).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringContaining('expected one of paidTwice'),
    })
  })
})

function generate(options: Partial<GenerateStatementOptions> = {}) {
  const { seed = 'seed' } = options
  return generateStatement({
    payments: buildStatementPayments(200, 10, seed),
    errors: ERRORS,
    format: 'camt053',
    seed,
    ...options,
  })
}

function statements(...words: string[]) {
  builtPath('')
  const program = fileURLToPath(new URL('../../scripts/statements.mjs', import.meta.url))
  return promisify(execFile)(process.execPath, [program, ...words])
}
