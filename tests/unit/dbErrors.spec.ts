import { inspect } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  call,
  DatabaseError,
  IdempotencyConflictError,
  KeyReusedError,
  isLeaseLostError,
  LeaseLostError,
  leaseLostErrorIn,
  SQLSTATE_DISPOSITIONS,
  RAISED_SQLSTATES,
  toDatabaseError,
  type Database,
  type Queryable,
} from '../../libs/db/index.js'
import { dispositionOf } from '../../libs/db/toDatabaseError.js'
import { closeAfterAll } from '../support/afterAll.js'
import { DbFixture } from '../support/dbFixture.js'

const fixture = closeAfterAll(await DbFixture.set())
let database: Database
let worker: Queryable

beforeAll(async () => {
  await fixture.admin.query(`
    CREATE FUNCTION symphony.raise_state(state text, message text, detail text) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION '%', message USING ERRCODE = state, DETAIL = detail, HINT = 'a hint';
    END $$;
    CREATE TABLE symphony.ledger (n int PRIMARY KEY, payload jsonb CONSTRAINT ledger_payload_is_object
      CHECK (jsonb_typeof(payload) = 'object'));
    CREATE FUNCTION symphony.refuse_mutation() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION 'append-only: % of table % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'P0001', TABLE = TG_TABLE_NAME;
    END $$;
    CREATE TRIGGER ledger_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON symphony.ledger
      FOR EACH STATEMENT EXECUTE FUNCTION symphony.refuse_mutation();
    GRANT ALL ON symphony.ledger TO ${fixture.worker}`)
  database = fixture.open()
  worker = database.as(fixture.worker)
})

const raise = (queryable: Queryable, state: string, message = 'no', detail = '') =>
  call(queryable, 'raise_state', [state, message, detail]).catch((error: unknown) => error)

test('a call in a schema that is not deployed fails with INVALID_SCHEMA_NAME and a remedy', async () => {
  const error = await call({ query: (...given) => worker.query(...given), schema: 'nowhere' }, 'enqueue').catch(
    (thrown: unknown) => thrown,
  )
  expect(error).toMatchObject({
    code: 'INVALID_SCHEMA_NAME',
    message: 'schema "nowhere" does not exist',
    remedy: expect.stringMatching(/symphony deploy .*symphony-pg\/admin/),
  })
})

describe('when a Symphony function or trigger raises an error', () => {
  test.for([
    ['P7001', 'ALREADY_TERMINAL', DatabaseError],
    ['P7002', 'LEASE_LOST', LeaseLostError],
    ['P7003', 'INVALID_COMPLETION_STATE', DatabaseError],
    ['P7004', 'IDEMPOTENCY_CONFLICT', IdempotencyConflictError],
    ['P7006', 'HELD', DatabaseError],
    ['P7007', 'APPROVAL_REQUIRED', DatabaseError],
    ['P7008', 'RETRY_CEILING', DatabaseError],
    ['P7009', 'DISPATCH_FROZEN', DatabaseError],
    ['P7010', 'INBOX_TRANSITION', DatabaseError],
    ['P7011', 'INBOX_UNKNOWN', DatabaseError],
    ['P7012', 'UNKNOWN_JOB', DatabaseError],
    ['P7014', 'KEY_REUSED', KeyReusedError],
    ['P7016', 'ACTOR_UNVERIFIED', DatabaseError],
    ['22023', 'INVALID_PARAMETER', DatabaseError],
  ] as const)('SQLSTATE %s becomes the error code %s', async ([sqlstate, code, errorClass]) => {
    for (const queryable of [worker, fixture.admin]) {
      const named = sqlstate.startsWith('P7') ? `${code}: said by us` : 'said by us'
      const error = await raise(queryable, sqlstate, named, 'in detail')
      expect(error).toBeInstanceOf(errorClass)
      expect(error).toMatchObject({
        name: errorClass.name,
        code,
        sqlstate,
        message: 'said by us',
        detail: 'in detail',
        hint: 'a hint',
        remedy: 'a hint',
        disposition: 'fatal',
      })
    }
  })

  test('its HINT becomes the remedy, instead of the default remedy of the SQLSTATE', async () => {
    expect(await raise(worker, '42501')).toMatchObject({ code: 'INSUFFICIENT_PRIVILEGE', remedy: 'a hint' })
    expect(await raise(worker, '40001')).toMatchObject({ code: 'SERIALIZATION_FAILURE', remedy: 'a hint' })
    const refused = await worker.query('SELECT * FROM pg_catalog.pg_authid').catch((error: unknown) => error)
    expect(refused).toMatchObject({ remedy: expect.stringContaining('symphony deploy --create-login') })
  })

  test('RAISED_SQLSTATES has exactly 22023, P0001 and the P70 codes listed in this test', () => {
    expect([...RAISED_SQLSTATES.keys()].toSorted()).toEqual(
      [
        '22023',
        'P0001',
        'P7001',
        'P7002',
        'P7003',
        'P7004',
        'P7006',
        'P7007',
        'P7008',
        'P7009',
        'P7010',
        'P7011',
        'P7012',
        'P7013',
        'P7014',
        'P7015',
        'P7016',
        'P7017',
        'P7018',
        'P7019',
      ].toSorted(),
    )
  })

  test.for([
    ['UPDATE symphony.ledger SET n = n + 1'],
    ['DELETE FROM symphony.ledger WHERE false'],
    ['TRUNCATE symphony.ledger'],
  ] as const)('a change of the ledger is refused as APPEND_ONLY (P0001): %s', async ([text]) => {
    const error = await worker.query(text).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'APPEND_ONLY', sqlstate: 'P0001', table: 'ledger' })
  })

  test('P0001 without a table name is not APPEND_ONLY, whatever the message', async () => {
    for (const message of ['any bare RAISE', 'append-only: UPDATE of table ledger is refused']) {
      const error = await raise(worker, 'P0001', message)
      expect(error).not.toMatchObject({ code: 'APPEND_ONLY' })
      expect(error).toMatchObject({ sqlstate: 'P0001', disposition: 'fatal', message })
    }
  })
})

const caught = (error: unknown) => error
const RECORDED = '{"recorded":true,"attempt_no":1,"state":"FAILED"}'
const RAISE_LOST = `DO $$ BEGIN RAISE EXCEPTION 'lease lost' USING ERRCODE = 'P7002', DETAIL = '${RECORDED}'; END $$`

describe('the error of a lost lease', () => {
  test.for([
    ['{"recorded":true,"attempt_no":3,"state":"DISPATCHED"}', { attemptNo: 3, state: 'DISPATCHED' }],
    ['{"recorded":false}', undefined],
    ['{"recorded":true}', undefined],
    ['{"recorded":"true","attempt_no":3,"state":"DISPATCHED"}', undefined],
    ['null', undefined],
    ['not JSON', undefined],
    ['', undefined],
  ] as const)('has the recorded attempt that DETAIL names, or none: %s', async ([detail, recorded]) => {
    const error = await raise(worker, 'P7002', 'lease lost', detail)
    expect(error).toBeInstanceOf(LeaseLostError)
    expect(error).toMatchObject({ recorded })
  })

  test('is recognised in causes, in an AggregateError and in a raw error of the driver', async () => {
    const typed = await raise(worker, 'P7002', 'lease lost', RECORDED)
    const inTransaction = await database.transactionAsRole(fixture.worker, (tx) => tx.query(RAISE_LOST)).catch(caught)
    const raw = await fixture.admin.query(RAISE_LOST).catch(caught)
    expect(raw).not.toBeInstanceOf(LeaseLostError)
    for (const error of [typed, inTransaction, raw]) {
      for (const wrapped of [
        error,
        new Error('outer', { cause: error }),
        new Error('outermost', { cause: new Error('outer', { cause: error }) }),
        new AggregateError([new Error('other'), error], 'several'),
        new Error('outer', { cause: new AggregateError([new Error('inner', { cause: error })]) }),
      ]) {
        expect(isLeaseLostError(wrapped)).toBe(true)
        expect(leaseLostErrorIn(wrapped)).toMatchObject({ recorded: { attemptNo: 1, state: 'FAILED' } })
      }
    }
  })

  test('is not recognised in other errors, even if their text or code is P7002', async () => {
    const cyclic = new Error('cyclic')
    cyclic.cause = cyclic
    const held = await raise(worker, 'P7006')
    const looksLikeIt = Object.assign(new Error('P7002'), { code: 'P7002' })
    for (const error of [undefined, null, 'P7002', { code: 'P7002' }, new Error('P7002'), cyclic, held, looksLikeIt]) {
      expect(isLeaseLostError(error)).toBe(false)
    }
  })
})

describe('SQLSTATEs of PostgreSQL', () => {
  test('have the code and disposition that SQLSTATE_DISPOSITIONS lists', async () => {
    const states = [...SQLSTATE_DISPOSITIONS].filter(([state]) => state.length === 5)
    expect(states.length).toBeGreaterThanOrEqual(45)
    for (const [sqlstate, { condition, disposition }] of states) {
      const error = await raise(worker, sqlstate)
      expect(error).toBeInstanceOf(DatabaseError)
      expect(error).toMatchObject({
        sqlstate,
        code: sqlstate === '26000' ? 'STALE_STATEMENT' : condition.toUpperCase(),
        disposition,
      })
    }
  })

  test.each([
    ['cache lookup failed for function 17452', 'STALE_STATEMENT', 'retry'],
    ['cache lookup failed for relation 17452', 'INTERNAL_ERROR', 'fatal'],
  ])('include XX000: the message "%s" gives it the code %s (disposition %s)', async (message, code, disposition) => {
    expect(await raise(worker, 'XX000', message)).toMatchObject({ code, disposition, sqlstate: 'XX000' })
  })

  test('are listed with the condition names of PostgreSQL', async () => {
    for (const [sqlstate, { condition }] of SQLSTATE_DISPOSITIONS) {
      if (sqlstate.length !== 5 || NOT_RAISABLE_BY_NAME.has(sqlstate)) continue
      const byName = `DO $$ BEGIN RAISE ${condition}; END $$`
      const error = await worker.query(byName).catch((thrown: unknown) => thrown)
      expect(error).toMatchObject({ sqlstate })
    }
  })

  /** SQLSTATEs that have no condition name on the oldest supported server. */
  const NOT_RAISABLE_BY_NAME = new Set(['25P04'])

  test.for([
    ['08XXX', 'unknown'],
    ['40XXX', 'retry'],
    ['53XXX', 'retry'],
    ['57XXX', 'unknown'],
    ['22XXX', 'fatal'],
    ['HV000', 'fatal'],
    ['99999', 'fatal'],
  ] as const)(
    'get the disposition of their class if they are not listed: %s is %s',
    async ([sqlstate, disposition]) => {
      expect(await raise(worker, sqlstate)).toMatchObject({ sqlstate, disposition })
    },
  )

  test('never have the disposition unknown before COMMIT is sent', async () => {
    for (const phase of ['connecting', 'uncommitted'] as const) {
      for (const [sqlstate, { disposition }] of SQLSTATE_DISPOSITIONS) {
        const expected = disposition === 'unknown' ? 'retry' : disposition
        expect(dispositionOf(sqlstate, { phase })).toBe(expected)
        expect(dispositionOf(sqlstate, { phase, sessionSurvived: false })).toBe(expected)
      }
    }
    const inTransaction = database.transactionAsRole(fixture.worker, async (tx) => {
      throw await raise(tx, '57P01')
    })
    await expect(inTransaction).rejects.toMatchObject({ sqlstate: '57P01', disposition: 'retry' })
  })

  test('have the disposition unknown if they end the session at COMMIT, except idle timeouts', () => {
    for (const [sqlstate] of SQLSTATE_DISPOSITIONS) {
      const expected = sqlstate === '25P03' || sqlstate === '57P05' ? 'retry' : 'unknown'
      expect(dispositionOf(sqlstate, { phase: 'committing', sessionSurvived: false })).toBe(expected)
    }
  })
})

describe('a DatabaseError', () => {
  const CANARY = '4111111111111111'

  async function failures(): Promise<unknown[]> {
    const attempts = [
      ['SELECT $1::int', [`${CANARY}x`]],
      ['SELECT $1::int', [`${CANARY}${CANARY}`]],
      ['SELECT $1::timestamptz', [CANARY]],
      ['SELECT $1::jsonb', [`{"card": ${CANARY}`]],
      ['SELECT $1::numeric(3)', [CANARY]],
      ['SELECT $1::uuid', [CANARY]],
      ['INSERT INTO symphony.ledger VALUES (1, $1)', [`"${CANARY}"`]],
      ['INSERT INTO symphony.ledger VALUES (NULL, $1)', [{ card: CANARY }]],
      ['INSERT INTO symphony.ledger VALUES ($1, NULL), ($1, NULL)', [41_111_111]],
    ] as const
    const thrown: unknown[] = []
    for (const [text, values] of attempts) {
      for (const queryable of [worker, fixture.open({ pooler: 'transaction' }).as(fixture.worker)]) {
        await queryable.query(text, values).catch((error: unknown) => thrown.push(error))
      }
    }
    expect(thrown).toHaveLength(attempts.length * 2)
    return thrown
  }

  test('contains no parameter or row value, not even in its stack or cause', async () => {
    // With this setting the server lists the parameters of a failed statement in CONTEXT.
    await fixture.admin.query(`ALTER ROLE ${fixture.login} SET log_parameter_max_length_on_error = -1`)
    for (const error of await failures()) {
      expect(error).toBeInstanceOf(DatabaseError)
      expect(inspect(error, { depth: Infinity, showHidden: true })).not.toMatch(/4111/)
    }
  })

  test('contains no parameter value, even if the stack of the raw error contains it', async () => {
    const raw = await fixture.admin.query('SELECT $1::int', [`${CANARY}x`]).catch(caught)
    expect(raw).toMatchObject({ stack: expect.stringContaining(CANARY) })
    const error = toDatabaseError(raw, { phase: 'committing' })
    expect(inspect(error, { depth: Infinity, showHidden: true })).not.toMatch(/4111/)
  })

  test('names the constraint, table and column', async () => {
    const error = await worker
      .query('INSERT INTO symphony.ledger VALUES (2, $1)', ['[]'])
      .catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({
      code: 'CHECK_VIOLATION',
      sqlstate: '23514',
      table: 'ledger',
      constraint: 'ledger_payload_is_object',
      message: expect.stringContaining('violates check constraint'),
      detail: undefined,
      cause: expect.any(Error),
    })
    await expect(worker.query('INSERT INTO symphony.ledger VALUES (NULL)')).rejects.toMatchObject({ column: 'n' })
  })
})

describe("an error of the caller's client", () => {
  test.for([
    ['TypeError', new TypeError('Cannot read properties of undefined'), 'CLIENT_FAILED'],
    ['RangeError', new RangeError('Invalid string length'), 'CLIENT_FAILED'],
    ['a network error', Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }), 'CONNECTION_LOST'],
  ] as const)('becomes CLIENT_FAILED, or CONNECTION_LOST for a network error: %s', async ([, thrown, code]) => {
    const broken: Queryable = { query: () => Promise.reject(thrown) }
    const failure = call(broken, 'claim_outbox_batch', [])
    await expect(failure).rejects.toMatchObject({ code, disposition: 'unknown', cause: thrown })
    // Before COMMIT nothing is recorded, so a retry is safe. A retry after a programming error would fail again.
    const disposition = code === 'CLIENT_FAILED' ? 'fatal' : 'retry'
    expect(toDatabaseError(thrown, { phase: 'uncommitted' })).toMatchObject({ code, disposition })
  })
})

test('an error while a connection is opened has disposition retry (CONNECT_FAILED)', () => {
  const error = new Error('Client has encountered a connection error and is not queryable')
  expect(toDatabaseError(error, { phase: 'connecting' })).toMatchObject({
    code: 'CONNECT_FAILED',
    disposition: 'retry',
  })
})
