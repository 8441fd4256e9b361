import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { GUARDRAILS, readRepository, type Repository, type SourceFile } from '../../scripts/guardrails/index.js'

const root = fileURLToPath(new URL('../..', import.meta.url))

describe('this repository', () => {
  const repository = readRepository(root)

  test('is scanned by the guardrails, except for node_modules', () => {
    const paths = repository.map(({ path }) => path)
    expect(paths).toEqual(expect.arrayContaining(['package.json', 'schema/v1/011_payment_outbox.sql', 'bin/symphony']))
    expect(paths.filter((path) => path.startsWith('libs/')).length).toBeGreaterThan(20)
    expect(paths.filter((path) => path.includes('node_modules'))).toEqual([])
  })

  test.each(GUARDRAILS)('obeys the rule: $name', ({ check }) => {
    expect(check(repository).map((finding) => `${finding.file}:${finding.line} ${finding.message}`)).toEqual([])
  })
})

/** The smallest repository that breaks no rule. Tests add violations to it. */
const SOUND: Repository = [
  file(
    'package.json',
    '{"files": ["dist"], "devDependencies": {"vitest": "1", "preact": "1"}, "exports": {".": "./dist/libs/index.js"}}',
  ),
  file(
    'schema/v1/004_table_functions.sql',
    `CREATE FUNCTION refuse_mutation() RETURNS trigger LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
     BEGIN RAISE EXCEPTION 'append-only' USING ERRCODE = 'P0001'; END $$;
     COMMENT ON FUNCTION refuse_mutation() IS 'Guard.';
     CREATE FUNCTION refuse() RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT AS $$
     BEGIN RAISE EXCEPTION 'ENDED: x' USING ERRCODE = 'P7001'; END $$;
     COMMENT ON FUNCTION refuse() IS 'Refuses.';`,
  ),
  file('schema/v1/011_payment_outbox.sql', 'CREATE TABLE payment_outbox_pending (outbox_id uuid, state text);'),
  file(
    'libs/db/sqlstates.ts',
    `export const RAISED_SQLSTATES = { P0001: { name: 'A' }, P7001: { name: 'ENDED' } }
    const SQLSTATE_DISPOSITIONS = { '40001': { condition: 'serialization_failure' } }`,
  ),
  file('docs/reference/errors.md', '# Errors\n\n## P0001 APPEND_ONLY\n\n## P7001 ENDED\n'),
]

test('the guardrails report nothing for a minimal repository', () => {
  expect(GUARDRAILS.flatMap(({ check }) => check(SOUND))).toEqual([])
})

interface Violation {
  readonly rule: RegExp
  readonly path: string
  readonly text: string
  readonly line: number
  readonly message: RegExp
}

describe('a violation', () => {
  const functionHead = 'LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT'
  const comment = "COMMENT ON FUNCTION f() IS 'x';"
  const raising = (raise: string) =>
    `CREATE FUNCTION f() RETURNS void ${functionHead} AS $$\nBEGIN\n  ${raise}\nEND $$;\n${comment}`
  const sqlText = /^SQL text/
  const role = /^roles are switched/
  const writes = /^our tables/
  const grants = /^GRANT and REVOKE/
  const functions = /^each function/
  const enums = /^no migration/
  const states = /^SQLSTATEs/
  const entryPoints = /^package\.json exports/
  const testOnly = /^nothing that only tests/
  const markup = /^the dashboard/
  const tests = /^no test/
  const machine = /^no paths/

  const violations: readonly Violation[] = [
    {
      rule: sqlText,
      path: 'libs/outbox/types.ts',
      text: "const a = 1\nconst b = 'SELECT * FROM anything'",
      line: 2,
      message: /SQL text/,
    },
    {
      rule: sqlText,
      path: 'libs/outbox/types.ts',
      text: "q('select outbox_id from x where y = $1')",
      line: 1,
      message: /db\.ts/,
    },
    {
      rule: sqlText,
      path: 'libs/outbox/types.ts',
      text: '\n\nq(`SELECT * FROM ${name}(${list.join(`, `)})`)',
      line: 3,
      message: /SQL text/,
    },
    {
      rule: sqlText,
      path: 'libs/outbox/types.ts',
      text: "q('CREATE TABLE ' + name + ' (a int)')",
      line: 1,
      message: /SQL text/,
    },
    { rule: sqlText, path: 'libs/outbox/types.ts', text: "q('SELECT a ' +\n  'FROM b')", line: 1, message: /SQL text/ },
    { rule: sqlText, path: 'libs/worker/a.ts', text: '// c\nq("BEGIN")', line: 2, message: /SQL text/ },
    {
      rule: sqlText,
      path: 'libs/worker/a.ts',
      text: "q('\\n  -- why\\n  LISTEN outbox_pending')",
      line: 1,
      message: /SQL text/,
    },
    {
      rule: sqlText,
      path: 'scripts/x.mjs',
      text: "q(`x ${await q('DROP SCHEMA symphony CASCADE')} y`)",
      line: 1,
      message: /SQL text/,
    },
    { rule: sqlText, path: 'libs/db.ts', text: "q('SELECT now()')", line: 1, message: /SQL text/ },
    { rule: sqlText, path: 'libs/outbox/deep/db.ts', text: "q('SELECT now()')", line: 1, message: /SQL text/ },
    {
      rule: role,
      path: 'libs/outbox/db.ts',
      text: '\nq(`SET ROLE ${quote(role)}`)',
      line: 2,
      message: /switches the role/,
    },
    {
      rule: role,
      path: 'libs/outbox/db.ts',
      text: "q('set local session authorization default')",
      line: 1,
      message: /switches/,
    },
    { rule: role, path: 'libs/outbox/db.ts', text: "q('RESET ROLE')", line: 1, message: /switches/ },
    {
      rule: role,
      path: 'libs/outbox/db.ts',
      text: 'q("SELECT set_config(\'role\', $1, true)")',
      line: 1,
      message: /switches/,
    },
    {
      rule: role,
      path: 'libs/http/a.ts',
      text: "connect({ options: '-c role=symphony_owner' })",
      line: 1,
      message: /switches/,
    },
    { rule: role, path: 'schema/v1/009_x.sql', text: 'SET ROLE symphony_owner;', line: 1, message: /switches/ },
    {
      rule: writes,
      path: 'libs/outbox/db.ts',
      text: "q('UPDATE payment_outbox_pending SET state = $1')",
      line: 1,
      message: /UPDATE of payment_outbox_pending/,
    },
    {
      rule: writes,
      path: 'libs/outbox/db.ts',
      text: 'q(`INSERT INTO ${schema}.payment_outbox_pending VALUES ($1)`)',
      line: 1,
      message: /INSERT of/,
    },
    {
      rule: writes,
      path: 'libs/outbox/db.ts',
      text: "q(`UPDATE ${qualify(q, 'payment_outbox_pending')} SET state = $1`)",
      line: 1,
      message: /computed name/,
    },
    {
      rule: writes,
      path: 'libs/outbox/db.ts',
      text: 'q(`WITH gone AS (UPDATE payment_outbox_pending SET state = NULL RETURNING 1) SELECT 1`)',
      line: 1,
      message: /UPDATE/,
    },
    {
      rule: writes,
      path: 'libs/outbox/db.ts',
      text: "q('COPY payment_outbox_pending FROM STDIN')",
      line: 1,
      message: /COPY/,
    },
    {
      rule: writes,
      path: 'libs/testing/db.ts',
      text: "q('INSERT INTO payment_outbox_pending DEFAULT VALUES')",
      line: 1,
      message: /INSERT/,
    },
    {
      rule: writes,
      path: 'examples/a.ts',
      text: "\nq('INSERT INTO payment_outbox_pending DEFAULT VALUES')",
      line: 2,
      message: /INSERT/,
    },
    {
      rule: /DISPATCHING$/,
      path: 'schema/v1/012_x.sql',
      text: "\nINSERT INTO t VALUES ('DISPATCHING');",
      line: 2,
      message: /DISPATCHING/,
    },
    {
      rule: /DISPATCHING$/,
      path: 'schema/v1/012_x.sql',
      text: raising("UPDATE t SET state = 'DISPATCHING';"),
      line: 3,
      message: /in flight means leased/,
    },
    {
      rule: /DISPATCHING$/,
      path: 'schema/v1/012_x.sql',
      text: raising("EXECUTE 'INSERT INTO t VALUES (''DISPATCHING'')';"),
      line: 3,
      message: /DISPATCHING/,
    },
    {
      rule: /^payment_outbox_pending is deleted/,
      path: 'schema/v1/012_x.sql',
      text: '-- tidy up\nDELETE FROM payment_outbox_pending;',
      line: 2,
      message: /outside its functions/,
    },
    {
      rule: /^payment_outbox_pending is deleted/,
      path: 'schema/v1/012_x.sql',
      text: 'DO $$\nBEGIN\n  IF true THEN\n    TRUNCATE a, payment_outbox_pending;\n  END IF;\nEND $$;',
      line: 4,
      message: /outside its functions/,
    },
    {
      rule: grants,
      path: 'schema/v1/012_x.sql',
      text: '\nGRANT SELECT ON t TO symphony_readonly;',
      line: 2,
      message: /011_privileges/,
    },
    {
      rule: grants,
      path: 'schema/v1/012_x.sql',
      text: 'ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;',
      line: 1,
      message: /GRANT or REVOKE/,
    },
    {
      rule: grants,
      path: 'schema/v1/012_x.sql',
      text: raising("EXECUTE format('GRANT %I TO %I', 'a', 'b');"),
      line: 3,
      message: /GRANT/,
    },
    {
      rule: grants,
      path: 'schema/v1/012_x.sql',
      text: 'DO $$ BEGIN REVOKE a FROM b; END $$;',
      line: 1,
      message: /REVOKE/,
    },
    {
      rule: grants,
      path: 'libs/outbox/db.ts',
      text: 'q(`GRANT symphony_ingest TO ${login}`)',
      line: 1,
      message: /GRANT/,
    },
    {
      rule: functions,
      path: 'schema/v1/012_x.sql',
      text: `\nCREATE FUNCTION f() RETURNS int LANGUAGE sql STABLE SECURITY DEFINER RETURN 1;${comment}`,
      line: 2,
      message: /f: say SET search_path FROM CURRENT/,
    },
    {
      rule: functions,
      path: 'schema/v1/012_x.sql',
      text: `CREATE FUNCTION f() RETURNS int LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS 'SELECT 1';${comment}`,
      line: 1,
      message: /search_path FROM CURRENT/,
    },
    {
      rule: functions,
      path: 'schema/v1/012_x.sql',
      text: `CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN 1; END $$;${comment}`,
      line: 1,
      message: /search_path FROM CURRENT/,
    },
    {
      rule: functions,
      path: 'schema/v1/012_x.sql',
      text: `CREATE FUNCTION f() RETURNS int LANGUAGE sql RETURN 1;${comment}`,
      line: 1,
      message: /volatility/,
    },
    {
      rule: functions,
      path: 'schema/v1/012_x.sql',
      text: `CREATE FUNCTION f(amount int) RETURNS int LANGUAGE sql STABLE RETURN 1;${comment}`,
      line: 1,
      message: /p_…, not amount/,
    },
    {
      rule: functions,
      path: 'schema/v1/012_x.sql',
      text: 'CREATE FUNCTION f() RETURNS int LANGUAGE sql STABLE RETURN 1;',
      line: 1,
      message: /COMMENT ON FUNCTION/,
    },
    {
      rule: enums,
      path: 'schema/migrations/0001_x.sql',
      text: "\nALTER TYPE outbox_attempt_state ADD VALUE IF NOT EXISTS 'PAID';",
      line: 2,
      message: /enum value; use a text column/,
    },
    {
      rule: enums,
      path: 'schema/migrations/0001_x.sql',
      text: "DO $$\nBEGIN\n  ALTER TYPE outbox_attempt_state ADD VALUE 'PAID';\nEND $$;",
      line: 3,
      message: /enum value/,
    },
    {
      rule: states,
      path: 'schema/v1/012_x.sql',
      text: raising("RAISE EXCEPTION 'x' USING ERRCODE = 'P7999';"),
      line: 3,
      message: /raises P7999, which .* does not map/,
    },
    { rule: states, path: 'schema/v1/012_x.sql', text: raising("RAISE SQLSTATE 'P7998';"), line: 3, message: /P7998/ },
    {
      rule: states,
      path: 'schema/v1/012_x.sql',
      text: raising("RAISE EXCEPTION 'x';"),
      line: 3,
      message: /P0001, which is reserved/,
    },
    {
      rule: states,
      path: 'schema/v1/012_x.sql',
      text: raising("RAISE EXCEPTION 'x' USING ERRCODE = format('P%s', 1);"),
      line: 3,
      message: /computed/,
    },
    { rule: states, path: 'schema/v1/012_x.sql', text: raising('RAISE disk_full;'), line: 3, message: /disk_full/ },
    {
      rule: states,
      path: 'schema/v1/012_x.sql',
      text: raising("RAISE EXCEPTION 'x' USING ERRCODE = 'P7001';"),
      line: 3,
      message: /P7001 with a message that does not begin with "ENDED: "/,
    },
    {
      rule: states,
      path: 'libs/db/sqlstates.ts',
      text: "export const RAISED_SQLSTATES = { P0001: {}, P7001: {},\n P7002: { name: 'x' } }",
      line: 2,
      message: /P7002 is mapped, but nothing/,
    },
    {
      rule: states,
      path: 'docs/reference/errors.md',
      text: '## P7001 ENDED\n',
      line: 1,
      message: /P0001 has no heading/,
    },
    {
      rule: states,
      path: 'docs/reference/errors.md',
      text: '## `P0001`\n## P7001 ENDED\n### P7003 INVALID\n',
      line: 3,
      message: /P7003 is documented, but nothing/,
    },
    {
      rule: entryPoints,
      path: 'package.json',
      text: '{"exports": {\n"./x": "./dist/libs/outbox/Worker.js"}}',
      line: 2,
      message: /not an entry point/,
    },
    {
      rule: testOnly,
      path: 'package.json',
      text: '{"files": ["dist", "tests/support"]}',
      line: 1,
      message: /packs tests\/support/,
    },
    { rule: testOnly, path: 'libs/db/pool.ts', text: '\npool.queryNoRole(sql)', line: 2, message: /queryNoRole/ },
    {
      rule: testOnly,
      path: 'libs/db/pool.ts',
      text: "import { test } from 'vitest'",
      line: 1,
      message: /only tests may/,
    },
    { rule: testOnly, path: 'libs/dashboard/a.tsx', text: "import 'vitest'", line: 1, message: /only tests may/ },
    { rule: testOnly, path: 'libs/http/a.ts', text: "import { h } from 'preact'", line: 1, message: /only tests may/ },
    {
      rule: markup,
      path: 'libs/dashboard/parts/A.tsx',
      text: 'const a = (\n  <p dangerouslySetInnerHTML={{ __html: payload }} />\n)',
      line: 2,
      message: /dangerouslySetInnerHTML/,
    },
    { rule: markup, path: 'libs/dashboard/a.ts', text: 'node.innerHTML = payload', line: 1, message: /innerHTML/ },
    { rule: markup, path: 'libs/dashboard/a.ts', text: "\nconst a = new Function('b')", line: 2, message: /Function/ },
    { rule: markup, path: 'libs/dashboard/a.html', text: '<p style="color: red"></p>', line: 1, message: /style/ },
    { rule: markup, path: 'libs/dashboard/a.html', text: '<p>\n<script>alert(1)</script>', line: 2, message: /script/ },
    { rule: tests, path: 'tests/unit/a.spec.ts', text: "test('a', f)\ntest.skip('b', f)", line: 2, message: /"skip"/ },
    { rule: tests, path: 'tests/unit/a.spec.ts', text: "describe\n  .only('b', f)", line: 2, message: /"only"/ },
    {
      rule: tests,
      path: 'tests/unit/a.spec.ts',
      text: "test.skipIf(!process.env.URL)('b', f)",
      line: 1,
      message: /"skipIf"/,
    },
    {
      rule: tests,
      path: 'tests/unit/a.spec.ts',
      text: "test.runIf(url).each(rows)('b', f)",
      line: 1,
      message: /"runIf"/,
    },
    { rule: tests, path: 'tests/unit/a.spec.ts', text: "it.todo('b')", line: 1, message: /"todo"/ },
    { rule: tests, path: 'tests/unit/a.spec.ts', text: "test('b', { skip: true }, f)", line: 1, message: /"skip"/ },
    {
      rule: tests,
      path: 'tests/unit/a.spec.ts',
      text: "test('b', (context) => {\n context.skip() })",
      line: 2,
      message: /"skip"/,
    },
    { rule: tests, path: 'tests/unit/a.spec.ts', text: "xtest('b', f)", line: 1, message: /"xtest"/ },
    {
      rule: machine,
      path: 'README.md',
      text: `\nsee ${['', 'home', 'ann', 'notes'].join('/')}`,
      line: 2,
      message: /one machine/,
    },
    {
      rule: machine,
      path: 'libs/cli/a.ts',
      text: `const a = '${['', 'work', 'main'].join('/')}'`,
      line: 1,
      message: /one machine/,
    },
    {
      rule: machine,
      path: 'docs/a.md',
      text: `\`${['C:', 'Users', 'ann'].join('\\')}\``,
      line: 1,
      message: /one machine/,
    },
    {
      rule: machine,
      path: 'package-lock.json',
      text: `{\n"resolved": "https://mirror.example/pg.tgz"}`,
      line: 2,
      message: /locked to an address/,
    },
    {
      rule: machine,
      path: 'docs/a.md',
      text: ['https:', '', 'artifactory.example.org', 'npm'].join('/'),
      line: 1,
      message: /names the registry/,
    },
    { rule: machine, path: '.npmrc', text: 'fund=false\nregistry=x', line: 2, message: /sets a registry/ },
  ]

  test.each(violations)(
    'is reported by exactly one rule: $rule, $path $text',
    ({ rule, path, text, line, message }) => {
      const violated = [...SOUND.filter((one) => one.path !== path), file(path, text)]
      const reporting = GUARDRAILS.filter(({ check }) => check(violated).length > 0)
      expect(reporting.map(({ name }) => name)).toEqual([expect.stringMatching(rule)])
      const findings = reporting.flatMap(({ check }) => check(violated))
      expect(findings).toContainEqual({ file: path, line, message: expect.stringMatching(message) })
    },
  )

  test('is listed in this spec for every rule, so that each rule is tested', () => {
    expect(GUARDRAILS.filter(({ name }) => !violations.some(({ rule }) => rule.test(name)))).toEqual([])
  })
})

describe('the guardrails', () => {
  test.each<[string, string, string]>([
    ['SQL in a db.ts that calls a function', 'libs/outbox/db.ts', 'q(`SELECT * FROM ${claim}($1)`); q("BEGIN")'],
    ['the driver in libs/db', 'libs/db/pool.ts', "import pg from 'pg'\nq(`SET ROLE ${role}`)"],
    [
      'the installer that grants itself the owner role',
      'libs/deployment/db.ts',
      'q(`SET ROLE x`); q(`GRANT ${a} TO ${b}`)',
    ],
    [
      'tests that move a row and switch roles',
      'tests/support/a.ts',
      "import pg from 'pg'\nq('SET ROLE x'); q('UPDATE payment_outbox_pending SET state = 1')",
    ],
    [
      'a moved lease expiry in a user’s test',
      'libs/testing/db.ts',
      "q('UPDATE payment_outbox_pending SET lease_expires_at = now()')",
    ],
    [
      'a user’s own driver and tables in an example',
      'examples/a.ts',
      "import pg from 'pg'\nq('BEGIN'); q('INSERT INTO orders VALUES (1)')",
    ],
    ['preact in the dashboard', 'libs/dashboard/a.tsx', "import { render } from 'preact'"],
    [
      'a script file of the dashboard, and markup words in text',
      'libs/dashboard/a.html',
      '<script type="module" src="./main.tsx"></script><p title="style=x">innerHTML</p>',
    ],
    ['SQL in a comment', 'libs/cli/a.ts', "// q('SELECT a FROM b')\n/* import pg from 'pg' */"],
    [
      'English that PostgreSQL could parse',
      'libs/cli/a.ts',
      "say('show ID', 'commit', 'select one', 'lock payments', 'Set aside to wait', 'begin', 'move on')",
    ],
    [
      'English with SQL words',
      'libs/cli/a.ts',
      "say('update the payment', 'Delete nothing.', 'GRANT is not yours to use', 'CREATE a payment')",
    ],
    ['advice for a person', 'libs/db/roles.ts', 'new RoleError({ remedy: `GRANT ${role} TO ${login}` })'],
    ['a regular expression', 'libs/cli/a.ts', "const a = /'SELECT/.test(b) / 2; c('x')"],
    ['a member called skip outside tests', 'libs/core/a.ts', 'reader.skip()'],
    ['a URL path that looks like a folder', 'docs/a.md', 'https://example.org/work/x and $HOME/work/ and ./work/x'],
    ['the public registry', 'docs/a.md', 'https://registry.npmjs.org/pg'],
    [
      'a condition of PostgreSQL that libs/db knows',
      'schema/v1/012_x.sql',
      'DO $$ BEGIN RAISE serialization_failure; END $$;',
    ],
    [
      'a notice, and an error passed on',
      'schema/v1/012_x.sql',
      "DO $$ BEGIN RAISE NOTICE 'x'; EXCEPTION WHEN OTHERS THEN RAISE; END $$;",
    ],
    [
      'DISPATCHING in an enum and a CHECK',
      'schema/v1/012_x.sql',
      "CREATE TYPE s AS ENUM ('DISPATCHING'); CREATE TABLE t (a text CHECK (a <> 'DISPATCHING'));",
    ],
    ['an enum value with a new name', 'schema/migrations/0001_x.sql', "ALTER TYPE s RENAME VALUE 'A' TO 'B';"],
    ['privileges on their page', 'schema/v1/011_privileges.sql', 'REVOKE ALL ON ALL TABLES IN SCHEMA x FROM PUBLIC;'],
    [
      'a function that deletes a pending item',
      'schema/v1/012_x.sql',
      `CREATE FUNCTION f(p_a uuid) RETURNS void LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
       AS $$ DELETE FROM payment_outbox_pending WHERE outbox_id = p_a $$;
       COMMENT ON FUNCTION f(uuid) IS 'x';`,
    ],
  ])('allow %s', (_what, path, text) => {
    expect(GUARDRAILS.flatMap(({ check }) => check([...SOUND, file(path, text)]))).toEqual([])
  })
})

test('SQL that PostgreSQL cannot parse fails the checks', () => {
  const broken = [...SOUND, file('schema/v1/012_x.sql', 'CREATE TABEL t ();')]
  expect(() => GUARDRAILS.map(({ check }) => check(broken))).toThrow(/schema\/v1\/012_x\.sql:1: .*refuses/)
})

function file(path: string, text: string): SourceFile {
  return { path, text }
}
