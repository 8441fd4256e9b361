import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { bodyOf, languageOf } from '../../scripts/guardrails/sqlFragments.js'
import { child, nodesNamed, parseSql } from '../../scripts/guardrails/sqlParser.js'
import { markBranches } from '../sqlBranches/plpgsqlBranches.js'
import {
  appendBranchHits,
  describeMissing,
  instrumentBranches,
  mergeBranchHits,
  readBranchHits,
  type BranchHits,
} from '../sqlBranches/sqlBranches.js'
import { verifyMarkedBranches } from '../sqlBranches/verifyMarkedBranches.js'

const SCHEMA = `Toy's "Schema"`
const TEMPLATE = `branches_${process.pid}_template`
const CLONES = [`branches_${process.pid}_one`, `branches_${process.pid}_two`] as const
const READER = `branches_${process.pid}_reader`

/** A schema with every kind of branch, and with strings and comments that look like branches. */
const TOY = `
CREATE TABLE log (note text);
CREATE FUNCTION every_kind(p_a int) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
<<outer>>
DECLARE
  v_case text := CASE WHEN p_a = 1 THEN 'begin' ELSE 'end if;' END; -- … IF THEN ELSE LOOP END IF;
  v_row record;
BEGIN
  /* IF nothing THEN */
  IF (CASE WHEN p_a = 1 THEN true ELSE false END) THEN -- one
    INSERT INTO log VALUES ('if x then');
  ELSIF p_a = 2 THEN NULL;
  ELSEIF p_a = 3 THEN
    IF p_a = 4 THEN NULL; END IF;
  ELSE
    NULL;
  END IF;
  CASE p_a
    WHEN 1, 2 THEN PERFORM 1;
    WHEN 5 THEN
      RAISE EXCEPTION 'five' USING ERRCODE = 'P7005';
    ELSE
      NULL;
  END CASE;
  CASE WHEN p_a > 0 THEN NULL; ELSE NULL; END CASE;
  FOR v_row IN SELECT CASE WHEN true THEN 1 END AS n FROM generate_series(1, p_a) LOOP NULL; END LOOP;
  FOR v_i IN 1 .. p_a - 1 LOOP
    CONTINUE WHEN v_i = 1;
  END LOOP;
  WHILE p_a < 0 LOOP EXIT outer; END LOOP;
  <<inner>>
  LOOP
    EXIT inner;
  END LOOP;
  DECLARE
    v_ids int[] := ARRAY[1, 2];
    v_id int;
  BEGIN
    FOREACH v_id IN ARRAY v_ids LOOP PERFORM 1 / (v_id - p_a); END LOOP;
  EXCEPTION
    WHEN division_by_zero THEN
      v_case := 'caught';
    WHEN OTHERS OR unique_violation THEN NULL;
  END;
  RETURN v_case;
END outer;
$$;
CREATE FUNCTION found_survives() RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  v_rows int;
BEGIN
  DELETE FROM log WHERE note = 'no such note';
  IF true THEN
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF FOUND THEN RETURN 'found'; END IF;
  END IF;
  RETURN format('not found, %s rows', v_rows);
END
$$;
CREATE FUNCTION counted_in_sql() RETURNS int LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$ SELECT 1 $$;
CREATE FUNCTION never_in_sql() RETURNS int LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$ SELECT 1 $$;
CREATE FUNCTION may_be_inlined() RETURNS int LANGUAGE sql IMMUTABLE RETURN 1;
CREATE FUNCTION of_the_caller(p_a int) RETURNS int LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$BEGIN RETURN p_a; END$$;
CREATE FUNCTION of_the_caller(p_a text) RETURNS text LANGUAGE plpgsql STABLE AS $$BEGIN RETURN p_a; END$$;
CREATE PROCEDURE a_procedure() LANGUAGE plpgsql AS $$ BEGIN NULL; END $$;
`

let server: Client
const open: Client[] = []

beforeAll(async () => {
  server = await connect('postgres')
  await server.query(`CREATE ROLE ${READER}`)
  await server.query(`CREATE DATABASE ${TEMPLATE}`)
  const template = await connect(TEMPLATE)
  await template.query(`CREATE SCHEMA ${quote(SCHEMA)}; SET search_path = ${quote(SCHEMA)}, pg_temp; ${TOY};
    GRANT USAGE ON SCHEMA ${quote(SCHEMA)} TO ${READER};
    ALTER FUNCTION every_kind(int) OWNER TO ${READER}; GRANT INSERT ON log TO ${READER}`)
  await template.query('RESET search_path')
  await instrumentBranches(template, SCHEMA)
  await template.end()
  for (const clone of CLONES) await server.query(`CREATE DATABASE ${clone} TEMPLATE ${TEMPLATE}`)
})

afterAll(async () => {
  await Promise.all(open.filter((client) => client !== server).map((client) => client.end().catch(() => undefined)))
  for (const database of [...CLONES, TEMPLATE]) await server.query(`DROP DATABASE IF EXISTS ${database} WITH (FORCE)`)
  await server.query(`DROP ROLE IF EXISTS ${READER}`)
  await server.end()
})

describe('branch counting on a toy schema', () => {
  test('finds every branch, with the line number that PostgreSQL uses', async () => {
    const hits = await hitsIn(await connect(TEMPLATE))
    expect(hits.filter(({ functionName }) => functionName.startsWith('every_kind')).map(place)).toEqual([
      'entry 7',
      'then 9',
      'elsif 11',
      'elsif 12',
      'then 13',
      'no else 13',
      'else 14',
      'when 18',
      'when 19',
      'case else 21',
      'when 24',
      'case else 24',
      'loop 25',
      'loop 26',
      'loop 29',
      'loop 31',
      'loop 38',
      'handler 40',
      'handler 42',
    ])
    expect(new Set(hits.map(({ functionName }) => functionName))).toEqual(
      new Set([
        'a_procedure',
        'counted_in_sql',
        'every_kind',
        'found_survives',
        'never_in_sql',
        'of_the_caller(p_a integer)',
        'of_the_caller(p_a text)',
      ]),
    )
  })

  test('reports unexecuted branches, and counts branches that a rolled-back transaction executed', async () => {
    const one = await connect(CLONES[0])
    await one.query('BEGIN')
    await one.query(call('every_kind(1)'))
    await one.query('ROLLBACK')
    await expect(one.query(call('every_kind(5)'))).rejects.toMatchObject({
      code: 'P7005',
      where: 'PL/pgSQL function every_kind(integer) line 20 at RAISE',
    })
    const missing = describeMissing(await hitsIn(one)).filter((line) => line.startsWith('every_kind'))
    expect(missing).toEqual([
      'every_kind, line 11 (elsif): ELSIF p_a = 2 THEN NULL;',
      'every_kind, line 12 (elsif): ELSEIF p_a = 3 THEN',
      'every_kind, line 13 (then): IF p_a = 4 THEN NULL; END IF;',
      'every_kind, line 13 (no else): IF p_a = 4 THEN NULL; END IF;',
      'every_kind, line 21 (case else): ELSE',
      'every_kind, line 24 (case else): CASE WHEN p_a > 0 THEN NULL; ELSE NULL; END CASE;',
      'every_kind, line 26 (loop): FOR v_i IN 1 .. p_a - 1 LOOP',
      'every_kind, line 29 (loop): WHILE p_a < 0 LOOP EXIT outer; END LOOP;',
      'every_kind, line 42 (handler): WHEN OTHERS OR unique_violation THEN NULL;',
    ])
  })

  test('leaves result, FOUND, row count, owner, rights and settings of the functions unchanged', async () => {
    const one = await connect(CLONES[0])
    expect(await value(one, 'every_kind(2)')).toBe('caught')
    expect(await value(one, 'every_kind(4)')).toBe('end if;')
    expect(await value(one, 'found_survives()')).toBe('not found, 0 rows')
    await one.query(`SET ROLE ${READER}`)
    expect(await value(one, 'of_the_caller(7)')).toBe(7)
    expect(await value(one, 'every_kind(1)')).toBe('caught')
    await one.query('RESET ROLE')
    const { rows } = await one.query(`
      SELECT proowner::regrole::text AS owner, prosecdef, provolatile, proconfig FROM pg_proc WHERE proname = 'every_kind'`)
    expect(rows).toEqual([
      { owner: READER, prosecdef: true, provolatile: 'v', proconfig: [`search_path=${quote(SCHEMA)}, pg_temp`] },
    ])
  })

  test('counts branches of a read-only transaction, and the functions raise no error', async () => {
    const two = await connect(CLONES[1])
    await two.query('BEGIN READ ONLY')
    expect(await value(two, 'of_the_caller(7)')).toBe(7)
    await two.query('COMMIT')
    expect((await hitsIn(two)).find(({ functionName }) => functionName.startsWith('of_the_caller'))?.hits).toBe(1)
  })

  test('counts the calls of a LANGUAGE sql function, not its branches', async () => {
    const two = await connect(CLONES[1])
    await value(two, 'counted_in_sql()')
    const missing = describeMissing(await hitsIn(two))
    expect(missing).toContain('never_in_sql: never called')
    expect(missing).not.toContain('counted_in_sql: never called')
  })

  test('adds up the counts of several databases', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'symphony-branches-'))
    try {
      const [one, two] = [await connect(CLONES[0]), await connect(CLONES[1])]
      await value(two, 'every_kind(3)')
      const hitsOfEach = [await hitsIn(one), await hitsIn(two)]
      // Imitates two test files that run in parallel and append to the same file.
      await appendBranchHits(join(folder, 'a'), hitsOfEach[0] ?? [])
      await appendBranchHits(join(folder, 'a'), hitsOfEach[1] ?? [])
      await appendBranchHits(join(folder, 'b'), hitsOfEach[1] ?? [])
      const merged = await mergeBranchHits([join(folder, 'a'), join(folder, 'b')])
      expect(merged.map(place)).toEqual(hitsOfEach[0]?.map(place))
      expect(merged.map(({ hits }) => hits)).toEqual(
        hitsOfEach[0]?.map(({ hits }, at) => hits + 2 * (hitsOfEach[1]?.[at]?.hits ?? 0)),
      )
      const [first, second] = hitsOfEach.map((found) => describeMissing(found))
      expect(describeMissing(merged)).toEqual(first?.filter((line) => second?.includes(line)))
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  test('refuses a schema that is already instrumented or has no functions', async () => {
    await expect(instrumentBranches(await connect(CLONES[1]), SCHEMA)).rejects.toThrow(/is instrumented already/)
    await expect(instrumentBranches(await connect('postgres'), 'no_such_schema')).rejects.toThrow(/is it deployed/)
  })
})

describe('markBranches', () => {
  const sign = 'the_marker'
  const marker = () => `IF ${sign}() THEN NULL; END IF;`
  const body = '\nBEGIN\n  IF true THEN\n    RETURN 1;\n  END IF;\n  RETURN 2;\nEND'

  test('writes a body that verifyMarkedBranches accepts', () => {
    expect(() => verifyMarkedBranches(define(body), define(markBranches(body, marker).body), sign)).not.toThrow()
  })

  test.each([
    [
      'a branch left out',
      (marked: string) => marked.replace(`THEN ${marker()}`, 'THEN '),
      /stmt_if\.then_body of line 3/,
    ],
    ['the entry left out', (marked: string) => marked.replace(`BEGIN ${marker()}`, 'BEGIN '), /function\.body/],
    ['an implicit ELSE left out', (marked: string) => marked.replace(`ELSE ${marker()}`, ''), /else_body/],
    ['a changed statement', (marked: string) => marked.replace('RETURN 1', 'RETURN 3'), /changed the function/],
    ['a moved line', (marked: string) => marked.replace('RETURN 1', '\nRETURN 1'), /changed the function/],
  ])('verifyMarkedBranches refuses a marked body with this damage: %s', (_what, corrupt, message) => {
    const corrupted = define(corrupt(markBranches(body, marker).body))
    expect(() => verifyMarkedBranches(define(body), corrupted, sign)).toThrow(message)
  })

  test('refuses a body without END and names the line', () => {
    expect(() => markBranches('\nBEGIN\n  IF a THEN\n    NULL;\n', marker)).toThrow(/line 5: expected END/)
  })

  test('writes a body that verifyMarkedBranches accepts, for each plpgsql function in schema/', async () => {
    const root = fileURLToPath(new URL('../../schema', import.meta.url))
    // The snapshot holds no function bodies.
    const files = (await readdir(root, { recursive: true })).filter((name) => /[\\/].*\.sql$/.test(name))
    const texts = await Promise.all(files.map((name) => readFile(join(root, name), 'utf8')))
    const functions = texts
      .flatMap((text) => parseSql(text))
      .filter(({ node }) => nodesNamed(node, 'CreateFunctionStmt').some((one) => languageOf(one) === 'plpgsql'))
    for (const { node, text } of functions) {
      const original = bodyOf(child(node, 'CreateFunctionStmt')) ?? ''
      verifyMarkedBranches(
        text,
        text.replace(original, () => markBranches(original, marker).body),
        sign,
      )
    }
    expect(functions.length).toBeGreaterThan(10)
  })
})

async function connect(database: string): Promise<Client> {
  const url = new URL(inject('serverUrl'))
  url.pathname = `/${database}`
  const client = new Client({ connectionString: url.href })
  await client.connect()
  open.push(client)
  return client
}

function define(body: string): string {
  return `CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$${body}$$`
}

function hitsIn(client: Client): Promise<readonly BranchHits[]> {
  return readBranchHits(client, SCHEMA)
}

function place({ kind, line }: BranchHits): string {
  return `${kind} ${line}`
}

function call(expression: string): string {
  return `SELECT ${quote(SCHEMA)}.${expression} AS value`
}

async function value(client: Client, expression: string): Promise<unknown> {
  const { rows } = await client.query<{ readonly value: unknown }>(call(expression))
  return rows[0]?.value
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
