import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { quoteIdentifier } from '../../libs/db/index.js'
import { useTestDatabase, withTestDatabase } from '../support/database.js'
import { rowHashes } from '../support/fingerprint.js'
import { gatewayOf } from '../support/httpFixture.js'
import { enqueue } from '../support/outboxItems.js'
import { connectionOf, failureOf, openConnection, type Connection } from '../support/race.js'
import { refusalIn } from '../support/refusal.js'
import { callStatement, PUBLIC_FUNCTIONS, soundArguments, type Arguments, type Role } from '../support/sqlFunctions.js'

/**
 * Tests SQL functions directly, without the wrappers that check first. Each refuses null, blank, oversized and
 * malformed arguments with 22023, names the argument, never repeats its value, and writes nothing. Each function has an
 * item for which the same call with valid arguments succeeds.
 */

/** Part of every hostile text, so that a test finds an error that quotes it. */
const CANARY = 'CANARY4929'

const names = Object.keys(PUBLIC_FUNCTIONS)

/** Values that an argument refuses and accepts, by description. Batch forms take them as elements. */
interface Limits {
  readonly refused: Readonly<Record<string, string>>
  readonly accepted: Readonly<Record<string, string>>
  /** @default 22023 */
  readonly code?: string
}

const ID: Limits = {
  refused: {
    'an empty one': `''`,
    'a blank one': `'   '`,
    'a space inside': `'${CANARY} b'`,
    'a leading space': `' ${CANARY}'`,
    '129 characters': `rpad('${CANARY}', 129, 'x')`,
    '5,000 characters': `rpad('${CANARY}', 5000, 'x')`,
    'a tab': `E'${CANARY}\\tb'`,
    'a line end': `E'${CANARY}\\n'`,
    'an escape character': `E'${CANARY}\\u001b[0m'`,
    'a delete character': `E'${CANARY}\\u007f'`,
    'a letter beyond ASCII': `'${CANARY}é'`,
    'a no-break space': `E'${CANARY}\\u00a0'`,
    'a right-to-left mark': `E'${CANARY}\\u200f'`,
    'a zero-width space': `E'\\u200b'`,
  },
  accepted: { 'the first and last printable character': `'!~'`, '128 characters': `repeat('x', 128)` },
}

const INBOX_ID: Limits = {
  refused: {
    'an empty one': `''`,
    'a blank one': `'   '`,
    'a no-break space': `E'\\u00a0'`,
    'wide spaces': `E'\\u2003\\u3000\\ufeff'`,
    '256 characters': `rpad('${CANARY}', 256, 'x')`,
    '256 characters of several bytes': `repeat('é', 256)`,
    '5,000 characters': `rpad('${CANARY}', 5000, 'x')`,
    'a tab': `E'${CANARY}\\tb'`,
    'a line end': `E'${CANARY}\\n'`,
    'an escape character': `E'${CANARY}\\u001b[0m'`,
    'a delete character': `E'${CANARY}\\u007f'`,
    'a control character beyond ASCII': `E'${CANARY}\\u0085'`,
  },
  accepted: { 'spaces among letters': `' é b '`, '255 characters of four bytes': `repeat(E'\\U0001F600', 255)` },
}

const KEY: Limits = {
  refused: { ...ID.refused, 'a key as redrive makes them': `'${CANARY}~redrive~1'` },
  accepted: { ...ID.accepted, 'a key that only looks like one of a redrive': `'a~redrive~1b'` },
}

const text = (lengthMax: number): Limits => ({
  refused: {
    'an empty one': `''`,
    'a blank one': `E' \\t\\r\\n'`,
    'one character too many': `rpad('${CANARY}', ${lengthMax + 1}, 'x')`,
    'one character too many, each of several bytes': `repeat('é', ${lengthMax + 1})`,
    'far too many': `rpad('${CANARY}', 1000000, 'x')`,
    'an escape character': `E'${CANARY}\\u001b[31m'`,
    'a bell': `E'${CANARY}\\u0007'`,
    'a delete character': `E'${CANARY}\\u007f'`,
    'a control character beyond ASCII': `E'${CANARY}\\u0085'`,
  },
  accepted: {
    'the longest, each character of several bytes': `repeat('é', ${lengthMax})`,
    'line ends and tabs': `E'a\\tb\\r\\nc'`,
  },
})

const integer = (min: number, max: number): Limits => ({
  refused: Object.fromEntries(
    [min - 1, max + 1, -1, -2_147_483_648, 2_147_483_647]
      .filter((value) => (value < min || value > max) && value <= 2_147_483_647)
      .map((value) => [String(value), `(${value})::integer`]),
  ),
  accepted: { [String(min)]: String(min), [String(max)]: String(max) },
})

const oneOf = (...words: readonly string[]): Limits => ({
  refused: {
    'an unknown word': `'${CANARY}'`,
    'an empty word': `''`,
    'another case': `'${words[0]!.toUpperCase() === words[0] ? words[0].toLowerCase() : words[0]!.toUpperCase()}'`,
    'a space behind': `'${words[0]} '`,
  },
  accepted: {},
})

const STATE: Limits = {
  ...oneOf('DISPATCHED'),
  refused: { ...oneOf('DISPATCHED').refused, DISPATCHING: `'DISPATCHING'`, ZOMBIE_REQUEUE: `'ZOMBIE_REQUEUE'` },
  code: 'P7003',
}

const PAYLOAD: Limits = {
  refused: {
    'an array': `'[]'`,
    'a string': `'"${CANARY}"'`,
    'a number': `'1'`,
    'a boolean': `'true'`,
    'a null': `'null'`,
    'a thousand numbers of 131,072 digits': numbers('1e131071', 1000),
    'one number of 131,072 digits': numbers('1e131071', 1),
    'a negative number of 131,072 digits': numbers('-1e131071', 1),
    'one zero of 16,383 decimals': numbers('0e-16383', 1),
    'seven thousand zeros of 16,383 decimals': numbers('0e-16383', 7000),
    'a number of 22 digits': numbers('1000000000000000000000', 1),
    'a negative number of 22 digits': numbers('-1000000000000000000000', 1),
    'a number that no double holds': numbers('9007199254740993', 1),
    'a fraction that no double holds': numbers('0.30000000000000001', 1),
    'a number that no double holds among good ones': `jsonb_build_object('a', ${numbers('1', 500)} -> 'a' || '9007199254740993'::jsonb)`,
    'a number of 21 decimals': numbers('0.000000000000000000001', 1),
    'a number of 21 decimals that say nothing': numbers('1.000000000000000000000', 1),
    'a number too large, deep inside': `jsonb_set(${nested(32)}, string_to_array(repeat('a ', 30) || 'a', ' '), '{"b": 1e22}')`,
    'a number too large among good ones': `jsonb_build_object('a', ${numbers('1', 500)} -> 'a' || '1e22'::jsonb)`,
    'nesting of 33': nested(33),
    'nesting of 33, ended by an array': nested(33, 'array'),
    'nesting of 200': nested(200),
    '65,537 bytes': bytes(65_537),
    '65,537 bytes of two-byte characters': `jsonb_build_object('a', repeat('é', 32763) || '${'x'.repeat(2)}')`,
    '100 KB': bytes(100_000),
    '100,000 numbers': numbers('1', 100_000),
    '10 MB': bytes(10_000_000),
  },
  accepted: {
    'an empty one': `'{}'`,
    'the largest number': numbers('999999999999999900000', 1),
    'the smallest number': numbers('-999999999999999900000', 1),
    'a number below the middle of two doubles': numbers('18014398509481988', 1),
    'a number of 20 decimals': numbers('0.00000000000000000001', 1),
    'nesting of 32': nested(32),
    'nesting of 32, ended by an array': nested(32, 'array'),
    '65,536 bytes': bytes(65_536),
    '65,536 bytes of two-byte characters': `jsonb_build_object('a', repeat('é', 32763) || 'x')`,
    'as many numbers as fit': numbers('1', 21_842),
    'as many nested numbers as fit': `jsonb_build_object('a', (SELECT jsonb_agg('[1]'::jsonb) FROM generate_series(1, 13105)))`,
    'an empty key, escapes and letters beyond ASCII': `'{"": "\\u0001 \\" \\\\ é \\ud83d\\ude00"}'`,
  },
}

const TIME: Limits = {
  refused: {
    infinity: `'infinity'::timestamptz`,
    'minus infinity': `'-infinity'::timestamptz`,
    'a time in 101 years': `now() + interval '101 years'`,
    'a time 101 years ago': `now() - interval '101 years'`,
  },
  accepted: {
    'a time in 99 years': `now() + interval '99 years'`,
    'a time 99 years ago': `now() - interval '99 years'`,
  },
}

/** A trace context comes from headers of the caller. An invalid one is dropped, and the payment is accepted. */
const TRACE_CONTEXT: Limits = {
  refused: {},
  accepted: {
    'an empty one': `''`,
    'no trace context': `'${CANARY}'`,
    'all zeros': `'00-' || repeat('0', 32) || '-' || repeat('0', 16) || '-00'`,
    'a line end': `E'00-\r\nSet-Cookie: ${CANARY}'`,
    'a megabyte': `rpad('${CANARY}', 1000000, 'x')`,
  },
}

/** Ids of API keys. `accepted` is empty, because an unknown id is refused with the same error as a malformed one. */
const KEY_ID: Limits = {
  refused: {
    'an empty one': `''`,
    'seven characters': `'${'k'.repeat(7)}'`,
    '33 characters': `rpad('key', 33, 'x')`,
    capitals: `'${CANARY}KEY'`,
    'a dash': `'${CANARY.toLowerCase()}-key'`,
    'a line end': `E'${CANARY.toLowerCase()}\\n'`,
  },
  accepted: {},
}

const SECRET_HASH: Limits = {
  refused: {
    nothing: `''::bytea`,
    '31 bytes': `'\\x${'00'.repeat(31)}'::bytea`,
    '33 bytes': `'\\x${'00'.repeat(33)}'::bytea`,
  },
  accepted: { '32 bytes': `'\\x${'00'.repeat(32)}'::bytea` },
}

const EXPIRY: Limits = {
  refused: {
    'a time that has passed': `now() - interval '1 second'`,
    infinity: `'infinity'`,
    'a time in 101 years': `now() + interval '101 years'`,
  },
  accepted: { 'a time in 99 years': `now() + interval '99 years'` },
}

const FIELDS: Limits = {
  refused: {
    ...PAYLOAD.refused,
    'an unknown class': `'{"/memo": "${CANARY}"}'`,
    'a place that is no pointer': `'{"${CANARY}": "masked"}'`,
  },
  accepted: {
    nothing: `'{}'`,
    'every class': `'{"/a": "public", "/*/b": "masked", "/c~1d": "encrypted", "/e": "forbidden"}'`,
  },
}

const UUID_TEXT = '0190a0b0-0000-7000-8000-000000000001'

const DATE: Limits = {
  refused: {
    infinity: `'infinity'::date`,
    'a day in 101 years': `current_date + 36900`,
    'a day 101 years ago': `current_date - 36900`,
  },
  accepted: { 'a day in 99 years': `current_date + 36000` },
}

/** Amount or count of a payment limit. */
const LIMIT_VALUE: Limits = {
  refused: {
    'not a number': `'NaN'`,
    infinity: `'Infinity'`,
    'minus infinity': `'-Infinity'`,
    'less than none': '-0.0001',
    '10^18': '1e18',
    '5 decimals': '0.00001',
    '131,072 digits': '1e131071',
    '16,383 decimals': '1e-16383',
  },
  accepted: { none: '0', 'the largest': '999999999999999999.9999' },
}

const LIMITS: Readonly<Record<string, Limits>> = {
  p_key_id: KEY_ID,
  p_session_id: KEY_ID,
  p_secret_hash: SECRET_HASH,
  p_scope: {
    refused: { nothing: `''`, 'an unknown one': `'${CANARY}'`, capitals: `'READ'` },
    accepted: { audit: `'audit'` },
  },
  p_subject: ID,
  p_marked_rail: ID,
  p_master_key_id: ID,
  p_previous_master_key_id: ID,
  p_wrapped_key: {
    refused: {
      nothing: `''`,
      '79 characters': `repeat('A', 79)`,
      '81 characters': `repeat('A', 81)`,
      'what is not base64url': `rpad('${CANARY}+', 80, 'A')`,
      'a line end': `E'${CANARY}\\n' || repeat('A', 69)`,
    },
    accepted: { '80 characters': `repeat('_', 80)` },
  },
  p_person: text(200),
  p_issuer: text(255),
  p_participant: ID,
  p_expires_at: EXPIRY,
  p_instruction_id: ID,
  p_participant_id: ID,
  p_topic: ID,
  p_outcome_topic: ID,
  p_job_name: ID,
  p_time_zone: ID,
  p_cron: text(256),
  p_idempotency_key: KEY,
  p_rail_type: ID,
  p_worker_id: ID,
  p_resource: ID,
  p_owner: ID,
  p_name: ID,
  p_rail: ID,
  p_payload: PAYLOAD,
  p_detail: PAYLOAD,
  p_fields: FIELDS,
  p_declared_by: ID,
  p_context: PAYLOAD,
  p_not_before: TIME,
  p_due_at: TIME,
  p_next_due_at: TIME,
  p_scheduled_for: TIME,
  p_beat_at: TIME,
  p_beat_no: integer(0, 2_147_483_647),
  p_revision: integer(1, 2_147_483_647),
  p_retention_seconds: integer(60, 315_360_000),
  p_batch_size: integer(1, 1000),
  p_lease_seconds: integer(1, 3600),
  p_session_seconds: integer(60, 28_800),
  p_duration_ms: integer(1_000, 3_600_000),
  p_idle_seconds: integer(3_600, 315_360_000),
  p_latency_ms: integer(0, 2_147_483_647),
  p_retry_delay_seconds: integer(0, 2_592_000),
  p_attempt_no: integer(1, 2_147_483_647),
  p_longest_seconds: integer(5, 86_400),
  p_reason: text(1000),
  p_note: text(1000),
  p_assignee: {
    refused: {
      'a blank one': `'   '`,
      'a space at an end': `'${CANARY} '`,
      'only invisible characters': `E'\\u200b'`,
      'the name of a gateway': `'${CANARY} via web'`,
      'a control character': `E'${CANARY}\\u0007'`,
      '201 characters': `rpad('${CANARY}', 201, 'x')`,
    },
    accepted: { nobody: `''`, '200 characters': `repeat('é', 200)` },
  },
  p_hold_reason: text(1000),
  p_action: oneOf('sent', 'inquired'),
  p_rail_reference: text(255),
  p_rail_code: text(128),
  p_error_code: text(128),
  p_error_message: text(2000),
  p_state: STATE,
  p_decision: { ...oneOf('DISPATCHED'), accepted: {} },
  p_kind: oneOf('rail'),
  p_on_ordered_failure: oneOf('halt'),
  p_source: INBOX_ID,
  p_message_id: INBOX_ID,
  p_error: text(2000),
  p_attempts_max: integer(1, 1000),
  p_rows_max: integer(1, 100_000),
  p_interval_ms: integer(0, 3_600_000),
  p_block_no: { refused: { none: '0', 'less than none': '-1' }, accepted: { one: '1' } },
  p_hash_key: { refused: { nothing: `''`, 'other digits': `'${CANARY}'` }, accepted: {} },
  p_destination_hmac: SECRET_HASH,
  p_rows_per_second: integer(1, 1_000_000),
  p_pass_seconds: integer(0, 2_592_000),
  p_rows_checked: { refused: { 'less than none': '-1' }, accepted: { none: '0' } },
  p_break_count: { refused: { 'less than none': '-1' }, accepted: { none: '0' } },
  p_keep_seconds: integer(1, 315_576_000),
  p_delivery: oneOf('outbox'),
  p_missed_runs: oneOf('once'),
  p_amount: {
    refused: {
      zero: '0',
      'less than zero': '-0.01',
      'five decimals': '1.00001',
      '10^18': '1e18',
      'a number of 131,072 digits': '1e131071',
      infinity: `'Infinity'`,
      'no number': `'NaN'`,
    },
    accepted: { 'the smallest': '0.0001', 'a whole number': '10' },
  },
  p_currency: {
    refused: {
      nothing: `''`,
      'two letters': `'EU'`,
      'four letters': `'EURO'`,
      'small letters': `'eur'`,
      'a line end': `E'EUR\\n'`,
      'letters beyond ASCII': `'ÉUR'`,
      'the currency of no payment': `'CHF'`,
    },
    accepted: {},
  },
  p_code: text(128),
  p_reference: text(255),
  p_occurred_at: TIME,
  p_trace_context: TRACE_CONTEXT,
  p_key_scope: text(500),
  p_limit_name: ID,
  // A valid name is refused like an invalid one if no limit has it.
  p_limit_in_force: { ...ID, accepted: {} },
  p_limit: LIMIT_VALUE,
  p_limit_currency: {
    refused: { 'two letters': `'EU'`, 'four letters': `'EURO'`, 'small letters': `'eur'`, 'a line end': `E'EUR\\n'` },
    accepted: { 'three capital letters': `'XYZ'` },
  },
  p_window_seconds: integer(60, 2_678_400),
  // The other arguments are those of kind amount, which takes no approvals.
  p_approvals: { refused: { none: '0', one: '1', three: '3' }, accepted: {} },
  p_entry_kind: oneOf('payout'),
  p_account: text(64),
  p_bank_reference: text(200),
  p_shown_reference: text(200),
  p_candidate: {
    refused: {
      nothing: `''`,
      'no id': `'${CANARY}'`,
      capitals: `upper('${UUID_TEXT}')`,
      'a space between two': `'${UUID_TEXT}, ${UUID_TEXT}'`,
      '21 ids': `rtrim(repeat('${UUID_TEXT},', 21), ',')`,
      'a line end': `E'${UUID_TEXT}\\n'`,
    },
    accepted: { '20 ids': `rtrim(repeat('${UUID_TEXT},', 20), ',')` },
  },
  p_entry_amount: {
    refused: {
      'less than zero': '-0.01',
      'seven decimals': '1.0000001',
      '10^18': '1e18',
      'a number of 131,072 digits': '1e131071',
      infinity: `'Infinity'`,
      'no number': `'NaN'`,
    },
    accepted: { zero: '0', 'the largest': '999999999999999999.999999' },
  },
  p_entry_currency: {
    refused: { nothing: `''`, 'two letters': `'EU'`, 'small letters': `'eur'`, 'a line end': `E'EUR\\n'` },
    accepted: { 'three capital letters': `'XYZ'` },
  },
  p_booked_on: DATE,
  p_valued_on: DATE,
  p_return_code: text(35),
  p_position: { refused: { none: '0', 'less than none': '-1' }, accepted: { 'the largest': '9223372036854775807' } },
  p_max_rows: integer(1, 1000),
  p_entries: { refused: { 'less than none': '-1', 'too many': '1000000001' }, accepted: {} },
  p_format: oneOf('camt053'),
  p_file_hash: SECRET_HASH,
  p_reading_hash: SECRET_HASH,
  p_statement_id: text(140),
  p_covered_from: { ...TIME, accepted: {} },
  p_period_from: { ...TIME, accepted: {} },
  p_period_to: { ...TIME, accepted: {} },
  p_settlement_days: integer(0, 60),
}

/** Arguments that accept every value of their type. */
const WITHOUT_LIMITS = [
  'p_data_key_id',
  'p_report_unleased',
  'p_report_failures',
  'p_is_message',
  'p_epoch_id',
  'p_outbox_id',
  'p_replaces',
  'p_lease_token',
  'p_lease_id',
  'p_proposal_id',
  'p_event_id',
  'p_ordered',
  'p_money',
  'p_serving',
  'p_without_key',
  'p_outcome_unknown',
  'p_fence',
  'p_costs_attempt',
  'p_timer_id',
  'p_run_id',
  'p_outbox_only',
  'p_upload_id',
  'p_after',
  'p_covered',
  'p_keep_unknown',
  'p_dry_run',
  'p_finding_id',
]

/** Arguments of batch functions whose plural is not the singular with an `s`. */
const IRREGULAR: Readonly<Record<string, string>> = {
  p_latencies_ms: 'p_latency_ms',
  p_entry_currencies: 'p_entry_currency',
  p_retry_delays_seconds: 'p_retry_delay_seconds',
  p_outcomes_unknown: 'p_outcome_unknown',
}

const db = await useTestDatabase()
const connections = new Map<Role, Connection>()
let sound: ReadonlyMap<string, Arguments>
let signatures: ReadonlyMap<string, readonly Argument[]>
let before: Record<string, string>

interface Argument {
  readonly name: string
  readonly type: string
}

beforeAll(async () => {
  signatures = await readSignatures()
  for (const role of ['executor', 'control', 'auditor', 'auth'] as const) {
    connections.set(role, await openConnection(db, `symphony_${role}`))
  }
  // Only a gateway may pass p_key_scope.
  const gateway = await (await gatewayOf(db)).connect()
  await gateway.query(`SET ROLE symphony_ingest; SET symphony.actor = 'olga'`)
  connections.set('ingest', await connectionOf(db, gateway))
  sound = await soundArguments(db)
  before = await rowHashes(db)
})
afterAll(async () => {
  process.stdout.write(`strict input: ${calls} calls\n`)
})

test('every function that a runtime role may call is tested with every argument', () => {
  expect(names.toSorted()).toEqual([...signatures.keys()].toSorted())
  for (const name of names) {
    const given = Object.keys(sound.get(name)!).toSorted()
    const declared = signatures.get(name)!.map((argument) => argument.name)
    expect([name, ...given]).toEqual([name, ...declared.toSorted()])
  }
})

test('every argument has an entry in LIMITS or WITHOUT_LIMITS', () => {
  const all = names.flatMap((name) => Object.keys(sound.get(name)!))
  const known = new Set([...Object.keys(LIMITS), ...WITHOUT_LIMITS])
  expect(all.filter((argument) => !known.has(singular(argument)))).toEqual([])
})

describe.each(names)('%s', (name) => {
  const subject = PUBLIC_FUNCTIONS[name]!

  test('accepts valid arguments', async () => {
    expect(await attempt(name, {})).toBe('accepted')
  })

  test('refuses NULL for exactly the arguments that are not optional (22023)', async () => {
    for (const { name: argument, type } of signatures.get(name)!) {
      const refused = { code: '22023', names: singular(argument) }
      expect([argument, await attempt(name, { [argument]: `NULL::${type}` })]).toEqual([
        argument,
        subject.optional?.includes(argument) === true ? 'accepted' : refused,
      ])
    }
    expect(await rowHashes(db)).toEqual(before)
  })

  test('refuses values beyond their limits and accepts values at the limits', async () => {
    for (const { name: argument, type } of signatures.get(name)!) {
      const limits = limitsOf(argument)
      const isList = type.endsWith('[]')
      const value = (expression: string) => (isList ? `ARRAY[${expression}]::${type}` : `(${expression})::${type}`)
      for (const [what, expression] of Object.entries(limits.refused)) {
        expect([argument, what, await attempt(name, { [argument]: value(expression) })]).toEqual([
          argument,
          what,
          { code: limits.code ?? '22023', names: singular(argument) },
        ])
      }
      // The id of another worker is well-formed, but that worker has no lease.
      const isFence = argument === 'p_worker_id' && 'p_lease_token' in sound.get(name)!
      for (const [what, expression] of Object.entries(limits.accepted)) {
        expect([argument, what, await attempt(name, { [argument]: value(expression) })]).toEqual([
          argument,
          what,
          isFence ? 'no lease' : isKey(argument) && subject.unknown !== undefined ? 'unknown' : 'accepted',
        ])
      }
    }
    expect(await rowHashes(db)).toEqual(before)
  })

  test('refuses arrays that are not one-dimensional lists of the right length (22023)', async () => {
    const lists = signatures.get(name)!.filter(({ type }) => type.endsWith('[]'))
    for (const { name: argument, type } of lists) {
      const valid = sound.get(name)![argument]!
      const element = `(${valid}::${type})[1]`
      const isAlone =
        lists.length === 1 || singular(argument).endsWith('rail') || subject.emptyLists?.includes(argument) === true
      const misshapen: Record<string, string> = {
        ...(subject.emptyLists?.includes(argument) === true
          ? {}
          : {
              'an empty array': `'{}'::${type}`,
              'an array of arrays of no element': `ARRAY['{}'::${type}, '{}']`,
            }),
        'an array of arrays': `ARRAY[${valid}::${type}]`,
        'an array counted from 0': `array_fill(${element}, ARRAY[1], ARRAY[0])`,
        'an array counted from 2': `array_fill(${element}, ARRAY[1], ARRAY[2])`,
        '1,001 elements': `array_fill(${element}, ARRAY[1001])`,
        ...(isAlone ? {} : { 'one element more than the others': `${valid}::${type} || ${element}` }),
        ...(subject.optionalElements?.includes(argument) === true ? {} : { 'a NULL': `ARRAY[NULL]::${type}` }),
      }
      for (const [what, expression] of Object.entries(misshapen)) {
        const outcome = await attempt(name, { [argument]: expression })
        expect([argument, what, outcome]).toEqual([
          argument,
          what,
          { code: '22023', names: expect.stringMatching(/^p_[a-z_]+$/) },
        ])
      }
    }
    expect(await rowHashes(db)).toEqual(before)
  })
})

describe('batch functions', () => {
  test('refuse a list with two dimensions, and the error names the argument (22023)', async () => {
    for (const { name: argument, type } of signatures.get('enqueue_payment_outbox_batch')!.slice(1)) {
      if (!type.endsWith('[]')) continue
      const valid = sound.get('enqueue_payment_outbox_batch')![argument]!
      expect(await attempt('enqueue_payment_outbox_batch', { [argument]: `ARRAY[${valid}]` })).toEqual({
        code: '22023',
        names: singular(argument),
      })
    }
    for (const argument of PUBLIC_FUNCTIONS['complete_outbox_attempts']!.optionalElements!) {
      const valid = sound.get('complete_outbox_attempts')![argument]!
      expect(await attempt('complete_outbox_attempts', { [argument]: `ARRAY[${valid}]` })).toEqual({
        code: '22023',
        names: singular(argument),
      })
    }
  })

  test.each([
    ['p_instruction_ids', `'two words'`],
    ['p_instruction_ids', `''`],
    ['p_instruction_ids', 'NULL'],
    ['p_instruction_ids', `repeat('i', 129)`],
    ['p_instruction_ids', `'~outcomes~i'`],
    ['p_participant_ids', `'\u00e9'`],
    ['p_participant_ids', 'chr(127)'],
    ['p_participant_ids', `'~outcomes~p'`],
    ['p_idempotency_keys', `E'a\\nb'`],
    ['p_idempotency_keys', `'key~redrive~1'`],
    ['p_rail_types', `E'a\\tb'`],
    ['p_rail_types', 'NULL'],
    ['p_payloads', 'NULL'],
    ['p_payloads', `'[]'`],
    ['p_payloads', `'{"a": 1e30}'`],
    ['p_payloads', `'{"a": 1e-21}'`],
    ['p_payloads', `'{"a": 1e131071}'`],
    ['p_payloads', `('{"a":' || repeat('[', 32) || repeat(']', 32) || '}')::jsonb`],
    ['p_payloads', `jsonb_build_object('a', repeat('x', 65536))`],
    ['p_not_before', `'infinity'`],
    ['p_not_before', `now() + interval '101 years'`],
    ['p_ordered', 'NULL'],
    ['p_outcome_topic', `E'a\\tb'`],
  ])(
    'refuse a batch of 1,000 with one invalid item; the error has its ordinal: %s, %s (22023)',
    async (argument, bad) => {
      const batch = buildBatchOf(1000)
      const good = {
        p_not_before: 'array_fill(now(), ARRAY[1000])',
        p_ordered: 'array_fill(true, ARRAY[1000])',
        p_outcome_topic: `array_fill('t'::text, ARRAY[1000])`,
      }
      const list = { ...batch, ...good }[argument]
      const spoiled = `ARRAY(SELECT CASE WHEN n = 700 THEN ${bad} ELSE g END FROM unnest(${list}) WITH ORDINALITY AS t(g, n) ORDER BY n)`
      const error = await failureOf(call('enqueue_payment_outbox_batch', { ...batch, [argument]: spoiled }))
      expect(error).toMatchObject({
        code: '22023',
        message: expect.stringMatching(new RegExp(`^${argument.replace(/s$/, '')} of item 700: expected `)),
      })
      expect(await rowHashes(db)).toEqual(before)
    },
  )

  test('accept 1,000 items, not 1,001 (22023)', async () => {
    expect(await attempt('enqueue_payment_outbox_batch', buildBatchOf(1000))).toBe('accepted')
    expect(await attempt('enqueue_payment_outbox_batch', buildBatchOf(1001))).toEqual({
      code: '22023',
      names: 'p_instruction_id',
    })
    for (const name of ['complete_outbox_attempts', 'renew_outbox_leases', 'release_outbox_leases']) {
      expect(await attempt(name, repeated(name, 1000))).toBe('accepted')
      expect(await attempt(name, repeated(name, 1001))).toEqual({ code: '22023', names: 'p_outbox_id' })
    }
  })

  test('refuse a p_not_before list with another first index or two dimensions (22023)', async () => {
    for (const list of [`'[0:0]={infinity}'`, `'{{infinity}}'`, `'[5:5]={-infinity}'`]) {
      expect(await attempt('enqueue_payment_outbox_batch', { p_not_before: `${list}::timestamptz[]` })).toEqual({
        code: '22023',
        names: 'p_not_before',
      })
    }
  })
})

describe('invalid jsonb payloads', () => {
  test.each([
    ['a NUL', `{"a": "\\u0000"}`, '22P05'],
    ['a lone high surrogate', `{"a": "\\ud800"}`, '22P02'],
    ['a lone low surrogate', `{"a": "\\udc00"}`, '22P02'],
    ['NaN', `{"a": NaN}`, '22P02'],
    ['Infinity', `{"a": Infinity}`, '22P02'],
    ['a number beyond numeric', `{"a": 1e200000}`, '22003'],
    ['nesting of 1,000,000', `{"a": ${'['.repeat(1_000_000)}`, '54001'],
    ['no JSON at all', CANARY, '22P02'],
  ])('are refused before the function is called: %s', async (_what, payload, code) => {
    for (const name of ['enqueue_payment_outbox', 'heartbeat_outbox_worker']) {
      const argument = name === 'enqueue_payment_outbox' ? 'p_payload' : 'p_detail'
      const given = { ...sound.get(name)!, [argument]: '$1' }
      expect(await failureOf(call(name, given, [payload]))).toMatchObject({ code })
    }
    expect(await rowHashes(db)).toEqual(before)
  })
})

test('bump_participant_outbox_seq refuses an invalid participant id (22023)', async () => {
  for (const expression of ['NULL', ...Object.values(ID.refused)]) {
    const refused = db.queryNoRole(`SELECT bump_participant_outbox_seq(${expression})`)
    expect(await failureOf(refused)).toMatchObject({
      code: '22023',
      message: expect.stringMatching(/^p_participant_id: /),
    })
  }
})

test('a call of a gateway login without a valid symphony.actor is refused (22023)', async () => {
  await withTestDatabase(async (own) => {
    const gateway = await own.createLogin('gateway', { roles: ['symphony_control'], inherit: true })
    await own.queryNoRole('UPDATE symphony_settings SET actor_gateways = ARRAY[$1], naming_gateways = ARRAY[$1]', [
      gateway.name,
    ])
    const client = await gateway.connect()
    const hold = `SELECT place_outbox_hold(p_outbox_id => '${(await enqueue(own)).outboxId}', p_reason => 'odd')`
    expect(await failureOf(client.query(hold))).toMatchObject({ code: '22023' })
    for (const actor of ['', '   ', `${CANARY} via web`, `${CANARY}${'x'.repeat(200)}`, `${CANARY}\u001B`, '\u0085']) {
      await client.query(`SELECT set_config('symphony.actor', $1, false)`, [actor])
      const error = await failureOf(client.query(hold))
      expect(error).toMatchObject({ code: '22023', message: expect.stringMatching(/^symphony\.actor: /) })
      expect(messagesIn(error)).not.toContain(CANARY)
    }
    await client.query(`SELECT set_config('symphony.actor', $1, false)`, ['é'.repeat(200)])
    expect((await client.query(hold)).rowCount).toBe(1)
  })
})

/** Returns whether the argument is the key of a message, job or payment. */
function isKey(argument: string): boolean {
  return ['p_source', 'p_message_id', 'p_job_name', 'p_instruction_id', 'p_idempotency_key'].includes(argument)
}

type Outcome = 'accepted' | 'no lease' | 'unknown' | { readonly code: string; readonly names: string }

let calls = 0

/** Calls the function with these arguments in place of valid ones, rolls back, and returns the outcome. */
async function attempt(name: string, overrides: Arguments): Promise<Outcome> {
  calls += 1
  const { client } = connectionFor(name)
  await client.query('BEGIN')
  try {
    await call(name, { ...sound.get(name)!, ...overrides })
    return 'accepted'
  } catch (error) {
    const { code, message } = refusalIn(error)
    if (code === 'P7002') return 'no lease'
    if (code === 'P7011' || code === 'P7012' || message.endsWith(' of an existing item with this idempotency key'))
      return 'unknown'
    const named = /^(?:[A-Z_]+: )?(p_[a-z_]+)(?: of item \d+)?: expected /.exec(message)?.[1] ?? message
    return { code, names: messagesIn(error).includes(CANARY) ? 'ITS VALUE' : singular(named) }
  } finally {
    await client.query('ROLLBACK')
  }
}

/** Returns all text of an error: its message, which JSON leaves out, and its other fields. */
function messagesIn(error: unknown): string {
  const refusal = refusalIn(error)
  return `${refusal.message} ${JSON.stringify(refusal)}`
}

function call(name: string, given: Arguments, values: readonly unknown[] = []): Promise<unknown> {
  const { client } = connectionFor(name)
  return client.query(callStatement(db, name, given), [...values])
}

function connectionFor(name: string): Connection {
  return connections.get(PUBLIC_FUNCTIONS[name]!.callers[0]!)!
}

function singular(argument: string): string {
  const regular = argument in LIMITS || WITHOUT_LIMITS.includes(argument) ? argument : argument.replace(/s$/, '')
  return IRREGULAR[argument] ?? regular
}

function limitsOf(argument: string): Limits {
  return LIMITS[singular(argument)] ?? { refused: {}, accepted: {} }
}

/** Reads from the catalog the functions that runtime roles may call. */
async function readSignatures(): Promise<typeof signatures> {
  const { rows } = await db.queryNoRole<{ name: string; arguments: Argument[] }>(
    `SELECT p.proname AS name, COALESCE((
       SELECT jsonb_agg(jsonb_build_object('name', p.proargnames[a.position], 'type', format_type(a.type, NULL))
         ORDER BY a.position)
       FROM unnest(p.proargtypes) WITH ORDINALITY AS a(type, position)), '[]') AS arguments
     FROM pg_proc p
     WHERE p.pronamespace = $1::regnamespace AND EXISTS (
       SELECT 1 FROM aclexplode(p.proacl) acl WHERE acl.grantee <> p.proowner AND acl.privilege_type = 'EXECUTE')
       -- The overload for the enum type passes its arguments on.
       AND 'outbox_attempt_state'::regtype <> ALL (p.proargtypes)`,
    [quoteIdentifier(db.schema)],
  )
  return new Map(rows.map((row) => [row.name, row.arguments]))
}

function buildBatchOf(count: number): Arguments {
  return {
    p_instruction_ids: `(SELECT array_agg('i-' || n) FROM generate_series(1, ${count}) n)`,
    p_participant_ids: `array_fill('p'::text, ARRAY[${count}])`,
    p_idempotency_keys: `array_fill('k'::text, ARRAY[${count}])`,
    p_rail_types: `array_fill('r'::text, ARRAY[${count}])`,
    p_payloads: `array_fill('{}'::jsonb, ARRAY[${count}])`,
    p_not_before: 'NULL',
    p_ordered: 'NULL',
    p_trace_contexts: 'NULL',
    p_key_scope: 'NULL',
    p_is_message: 'false',
    p_outcome_topic: 'NULL',
    p_replaces: 'NULL',
  }
}

/** Returns the arguments of a valid call with its one item repeated. */
function repeated(name: string, count: number): Arguments {
  const lists = signatures.get(name)!.filter(({ type }) => type.endsWith('[]'))
  return Object.fromEntries(
    lists.map(({ name: argument, type }) => [
      argument,
      `array_fill((${sound.get(name)![argument]}::${type})[1], ARRAY[${count}])`,
    ]),
  )
}

/** Returns a payload with `count` copies of a number, written as given. */
function numbers(written: string, count: number): string {
  return `('{"a": [' || repeat('${written}, ', ${count - 1}) || '${written}]}')::jsonb`
}

/** Returns a payload of `depth` nested objects, the outermost included. The innermost may be an array. */
function nested(depth: number, innermost: 'object' | 'array' = 'object'): string {
  const end = innermost === 'object' ? '{}' : '[]'
  return `(repeat('{"a":', ${depth - 1}) || '${end}' || repeat('}', ${depth - 1}))::jsonb`
}

/** Returns a payload of `count` bytes in jsonb output. */
function bytes(count: number): string {
  return `jsonb_build_object('a', rpad('${CANARY}', ${count - 9}, 'x'))`
}
