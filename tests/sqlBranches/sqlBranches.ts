import { appendFile, readFile } from 'node:fs/promises'
import { quoteIdentifier, type Queryable } from '../../libs/db/index.js'
import { markBranches, type BranchKind } from './plpgsqlBranches.js'
import { verifyMarkedBranches } from './verifyMarkedBranches.js'

/*
 * Counts executed branches of database functions.
 *
 * `instrumentBranches` re-creates every plpgsql function with a counter at the start of each branch. A counter is an
 * empty function. PostgreSQL counts its calls (track_functions = all) even if the branch ends in an error and the
 * transaction rolls back. Sequences would count as well, but each would add a file to every clone.
 *
 * Everything is in `<schema>_branches`, so a clone of the database has it too: instrument the template once, read each
 * clone, merge the counts.
 */

export interface BranchHits {
  /** Name, with arguments only if it is overloaded. */
  readonly functionName: string
  readonly ordinal: number
  /** `call`: a LANGUAGE sql function. Only its calls are counted. */
  readonly kind: BranchKind | 'call'
  readonly line: number
  readonly source: string
  readonly hits: number
}

export type SqlBranch = Omit<BranchHits, 'hits'>

/** Adds counters, over a superuser's connection. Returns the branches. */
export async function instrumentBranches(queryable: Queryable, schema: string): Promise<readonly SqlBranch[]> {
  const counters = quoteIdentifier(counterSchema(schema))
  const functions = await readFunctions(queryable, schema)
  const measured = functions.map((one) => (one.language === 'plpgsql' ? instrument(one, counters) : countCalls(one)))
  // These statements are one query and so one transaction: if one of them fails, none takes effect.
  await queryable.query(`
    CREATE SCHEMA ${counters};
    CREATE TABLE ${counters}.branches (
      "functionName" text, ordinal int, kind text, line int, source text, counter regprocedure);
    ${measured.flatMap(({ statements }) => statements).join(';\n')};
    -- A SECURITY INVOKER function counts with the rights of its caller.
    GRANT USAGE ON SCHEMA ${counters} TO PUBLIC`)
  const rows = measured.flatMap((one) => one.rows)
  await queryable.query(
    `INSERT INTO ${counters}.branches SELECT * FROM json_populate_recordset(NULL::${counters}.branches, $1)`,
    [JSON.stringify(rows)],
  )
  return rows.map(({ functionName, ordinal, kind, line, source }) => ({ functionName, ordinal, kind, line, source }))
}

export async function readBranchHits(queryable: Queryable, schema: string): Promise<readonly BranchHits[]> {
  // PostgreSQL adds the calls of a backend to its statistics when the backend ends or idles. The first query adds the
  // calls of this backend now.
  await queryable.query('SELECT pg_stat_force_next_flush()')
  await queryable.query('SELECT pg_stat_clear_snapshot()')
  const { rows } = await queryable.query<BranchHits>(`
    SELECT "functionName", ordinal, kind, line, source, COALESCE(pg_stat_get_function_calls(counter), 0)::int AS hits
    FROM ${quoteIdentifier(counterSchema(schema))}.branches
    ORDER BY "functionName", ordinal`)
  return rows
}

/** Returns one line per branch that was never executed. */
export function describeMissing(hits: readonly BranchHits[]): string[] {
  return hits
    .filter((branch) => branch.hits === 0)
    .map(({ functionName, kind, line, source }) =>
      kind === 'call' ? `${functionName}: never called` : `${functionName}, line ${line} (${kind}): ${source}`,
    )
}

/** Appends counts to a file in one write, so that parallel test files may share it. */
export async function appendBranchHits(path: string, hits: readonly BranchHits[]): Promise<void> {
  await appendFile(path, `${JSON.stringify(hits)}\n`)
}

/** Adds up the counts of many databases. */
export async function mergeBranchHits(paths: readonly string[]): Promise<readonly BranchHits[]> {
  const merged = new Map<string, BranchHits>()
  for (const path of paths) {
    const lines = (await readFile(path, 'utf8')).split('\n').filter((line) => line !== '')
    for (const branch of lines.flatMap((line): BranchHits[] => JSON.parse(line))) {
      const key = `${branch.functionName} ${branch.ordinal}`
      merged.set(key, { ...branch, hits: branch.hits + (merged.get(key)?.hits ?? 0) })
    }
  }
  return [...merged.values()]
}

function counterSchema(schema: string): string {
  return `${schema}_branches`
}

interface FunctionDefinition {
  readonly oid: number
  readonly name: string
  /** Signature for DDL. */
  readonly signature: string
  readonly language: 'plpgsql' | 'sql'
  readonly body: string
  readonly definition: string
}

/**
 * Reads the functions to measure. Functions in SQL are included only if they are SECURITY DEFINER or have settings.
 * PostgreSQL may inline the others, and an inlined call is not counted.
 */
async function readFunctions(queryable: Queryable, schema: string): Promise<readonly FunctionDefinition[]> {
  const { rows } = await queryable.query<FunctionDefinition>(
    `SELECT p.oid::int AS oid, p.oid::regprocedure::text AS signature, l.lanname AS language, p.prosrc AS body,
       pg_get_functiondef(p.oid) AS definition,
       -- Omits the schema, so that counts of deployments with other schema names can be merged.
       CASE count(*) OVER (PARTITION BY p.proname) WHEN 1 THEN p.proname
         ELSE format('%s(%s)', p.proname, replace(pg_get_function_identity_arguments(p.oid), quote_ident($1) || '.', ''))
       END AS name
     FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
     WHERE p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND p.prokind IN ('f', 'p')
       AND (l.lanname = 'plpgsql' OR (l.lanname = 'sql' AND (p.prosecdef OR p.proconfig IS NOT NULL)))
     ORDER BY name`,
    [schema],
  )
  if (rows.length === 0) throw new Error(`no functions to measure in schema ${schema}: is it deployed?`)
  return rows
}

interface Measured {
  readonly statements: readonly string[]
  readonly rows: readonly (SqlBranch & { readonly counter: string })[]
}

function instrument(original: FunctionDefinition, counters: string): Measured {
  const { oid, name, body, definition } = original
  if (body.includes(MARKER_SIGN)) throw new Error(`${name} is instrumented already`)
  const counter = (ordinal: number) => `${counters}${MARKER_SIGN}${oid}_${ordinal}()`
  const { body: markedBody, branches } = markBranches(body, (ordinal) => marker(counter(ordinal)))
  const bodyAt = definition.lastIndexOf(body)
  const marked = definition.slice(0, bodyAt) + markedBody + definition.slice(bodyAt + body.length)
  try {
    verifyMarkedBranches(definition, marked, MARKER_SIGN)
  } catch (error) {
    throw new Error(`${name} cannot be measured`, { cause: error })
  }
  return {
    statements: [
      ...branches.map(
        (_, ordinal) => `CREATE FUNCTION ${counter(ordinal)} RETURNS bool LANGUAGE plpgsql AS 'BEGIN RETURN true; END'`,
      ),
      // CREATE OR REPLACE keeps owner, privileges and settings.
      marked,
    ],
    rows: branches.map(({ kind, line, source }, ordinal) => ({
      functionName: name,
      ordinal,
      kind,
      line,
      source,
      counter: counter(ordinal),
    })),
  }
}

/** Returns the row for the calls of a LANGUAGE sql function. Its branches are not counted. */
function countCalls({ name, signature }: FunctionDefinition): Measured {
  return {
    statements: [],
    rows: [{ functionName: name, ordinal: 0, kind: 'call', line: 1, source: '', counter: signature }],
  }
}

/** Text that identifies a marker: part of the name of every counter. */
const MARKER_SIGN = '.count_branch_'

/** Returns an IF, because a PERFORM would set FOUND. */
function marker(counter: string): string {
  return `IF ${counter} THEN NULL; END IF;`
}
