import { createHmac } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from 'pg'
import { quoteIdentifier } from '../../libs/db/index.js'
import { enqueuePaymentOutbox } from '../../libs/outbox/index.js'
import type { HostileInput, InstructionField } from '../security/hostileInputs.js'
import { symphony } from './commandLine.js'
import type { TestDatabase } from './database.js'
import type { HttpFixture } from './httpFixture.js'

/**
 * Sends a hostile input through one entry point. Returns `accepted` or the code of the refusal, or undefined if the
 * input cannot be expressed there.
 */
export type EntryPoint = (input: HostileInput) => Promise<string | undefined>

/** Returns valid values for the other fields. `number` makes each accepted payment unique. */
function soundFields(number: number): Record<Exclude<InstructionField, 'instruction'>, string> {
  return {
    instructionId: `"i-${number}"`,
    participantId: '"p"',
    idempotencyKey: `"k-${number}"`,
    railType: '"r"',
    payload: '{}',
    notBefore: '"2026-01-31T12:00:00Z"',
    ordered: 'false',
  }
}

let used = 0

/** Returns the JSON text of an instruction with this input. */
export function instructionText({ field, text }: HostileInput, without?: InstructionField): string {
  used += 1
  if (field === 'instruction') return text.replaceAll('"i"', `"i-${used}"`).replaceAll('"k"', `"k-${used}"`)
  const fields = { ...soundFields(used), [field]: text }
  const members = Object.entries(fields).filter(([name]) => name !== without)
  return `{${members.map(([name, value]) => `"${name}": ${value}`).join(', ')}}`
}

/** Calls the SQL function directly. Arguments are text, as a driver sends them. */
export function throughSql(db: TestDatabase, client: Client): EntryPoint {
  return async ({ field, text }) => {
    if (field === 'instruction') return undefined
    used += 1
    const fields = { ...soundFields(used), [field]: text }
    const values = Object.entries(fields).map(([name, value]) => (name === 'payload' ? value : textIn(value)))
    return answerOf(() =>
      client.query(
        `SELECT * FROM ${quoteIdentifier(db.schema)}.enqueue_payment_outbox($1, $2, $3, $4, $5, $6, $7)`,
        values,
      ),
    )
  }
}

/** Converts JSON text to a parameter: the content of a string, or NULL for null. */
function textIn(value: string): string | null {
  const parsed = parsedOf(value)
  if (parsed === undefined) return value
  if (parsed.value === null) return null
  return typeof parsed.value === 'string' ? parsed.value : value
}

/** Calls the wrapper with the result of JSON.parse, without the strict parser. */
export function throughTypeScript(db: TestDatabase): EntryPoint {
  return async (input) => {
    const parsed = parsedOf(instructionText(input))
    if (parsed === undefined) return undefined
    const { notBefore, ...given } = Object.fromEntries(Object.entries(Object(parsed.value)))
    const at = typeof notBefore === 'string' && input.field !== 'notBefore' ? new Date(notBefore) : notBefore
    const instruction: object = notBefore === undefined ? given : { ...given, notBefore: at }
    return throughWrapper(db, instruction)
  }
}

export function throughWrapper(db: TestDatabase, instruction: object): Promise<string> {
  // @ts-expect-error -- JavaScript allows any value
  return answerOf(() => enqueuePaymentOutbox(db.as('symphony_ingest'), instruction))
}

export function throughHttp(fixture: HttpFixture): EntryPoint {
  return async (input) => {
    if (input.field === 'idempotencyKey') {
      const body = instructionText(input)
      return problemIn(await fixture.call('/v1/instructions/batch', jsonPost(`{"instructions": [${body}]}`)))
    }
    const body = instructionText(input, 'idempotencyKey')
    return problemIn(await fixture.call('/v1/instructions', jsonPost(body, { 'idempotency-key': `k-${used}` })))
  }
}

/** Runs `symphony enqueue` in this process, with a file of one line. */
export function throughCommandLine(folder: string, env: Readonly<Record<string, string>>): EntryPoint {
  return async (input) => {
    const text = instructionText(input)
    // The file has one instruction per line, so text with a line break cannot be sent.
    if (/[\n\r]/.test(text)) return undefined
    const file = join(folder, 'hostile.ndjson')
    await writeFile(file, text)
    const { exitCode, stdout, stderr } = await symphony(['enqueue', '--file', file, '--json'], env)
    if (exitCode === 0) return JSON.parse(stdout).read === 0 ? 'nothing' : 'accepted'
    return `${exitCode} ${JSON.parse(stderr).error.code}`
  }
}

export const WEBHOOK_SECRET = 'the secret of a hostile sender'

/** Sends the text as a signed webhook body. Message id and topic are read from it. */
export function throughWebhook(fixture: HttpFixture): EntryPoint {
  return async (input) => {
    const body = instructionText(input)
    const at = String(Math.floor(Date.now() / 1_000))
    const signature = createHmac('sha256', WEBHOOK_SECRET).update(`${at}.`).update(body).digest('hex')
    const headers = { authorization: '', 'webhook-timestamp': at, 'webhook-signature': `sha256=${signature}` }
    return problemIn(await fixture.call('/v1/webhooks/hostile', jsonPost(body, headers)))
  }
}

function jsonPost(body: string, headers: Readonly<Record<string, string>> = {}) {
  return { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body }
}

async function problemIn(response: Response): Promise<string> {
  const text = await response.text()
  if (response.ok) return 'accepted'
  return `${response.status} ${JSON.parse(text).code}`
}

async function answerOf(call: () => Promise<unknown>): Promise<string> {
  try {
    await call()
    return 'accepted'
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : `untyped: ${String(error)}`
  }
}

function parsedOf(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}
