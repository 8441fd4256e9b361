// Runs tests with programs from Debian packages: pg_dump and pg_restore, PgBouncer, plpgsql_check and the drivers of
// other languages. Lists the tests that did not run. A missing program fails the run, unless --allow-missing is given.
//
//   npm run debian                            all of them
//   npm run debian -- pgbouncer dump          only the named ones, of dump, pgbouncer, plpgsql-check and the languages
//   npm run languages                         only the languages: psql, python, go, java, php
//   npm run languages -- python go            only the named languages
//   npm run debian -- --allow-missing         only those whose programs are installed
//   SYMPHONY_PROGRAMS=/opt/pg18/bin npm run debian    also searches this folder for programs
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { delimiter, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensureBuilt } from './build.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
const SERVER_VERSIONS = new Set(['15', '16', '17', '18'])
const DEBIAN_POSTGRES = '/usr/lib/postgresql'

const FOLDERS = [
  ...(process.env.SYMPHONY_PROGRAMS ?? '').split(delimiter),
  ...listed(DEBIAN_POSTGRES).map((version) => join(DEBIAN_POSTGRES, version, 'bin')),
  ...(process.env.PATH ?? '').split(delimiter),
  '/usr/sbin',
].filter((folder) => folder !== '')

/** Test files, with the programs that each needs and the command that installs them. */
const TESTS = {
  dump: {
    programs: () => versionedFolders('pg_dump', 'pg_restore'),
    remedy: 'apt-get install postgresql-client',
  },
  pgbouncer: {
    programs: () => {
      const folder = FOLDERS.find((one) => existsSync(join(one, 'pgbouncer')))
      return folder === undefined ? {} : { pgbouncer: join(folder, 'pgbouncer') }
    },
    remedy: 'apt-get install pgbouncer',
  },
  'plpgsql-check': {
    programs: () =>
      Object.fromEntries(
        listed(DEBIAN_POSTGRES)
          .map((version) => [version, join(DEBIAN_POSTGRES, version)])
          .filter(([, folder]) =>
            ['bin/postgres', 'lib/plpgsql_check.so'].every((file) => existsSync(join(folder, file))),
          ),
      ),
    remedy: 'apt-get install postgresql-15 postgresql-15-plpgsql-check, or those of the version that Debian has',
  },
}

/** Languages of docs/coding/other-languages.md, each with its program and the folder or file of its driver. */
const LANGUAGES = {
  psql: { program: 'psql', driver: '/', packages: 'postgresql-client' },
  python: {
    program: '/usr/bin/python3',
    driver: '/usr/lib/python3/dist-packages/psycopg',
    packages: 'python3-psycopg',
  },
  go: {
    program: 'go',
    driver: '/usr/share/gocode/src/github.com/jackc/pgx/v4',
    packages: 'golang-go golang-github-jackc-pgx-v4-dev',
  },
  java: {
    program: 'java',
    driver: '/usr/share/java/postgresql.jar',
    packages: 'openjdk-17-jdk-headless libpostgresql-jdbc-java',
  },
  php: {
    program: 'php',
    driver: listed('/etc/php').map((version) => `/etc/php/${version}/mods-available/pdo_pgsql.ini`)[0],
    packages: 'php-cli php-pgsql',
  },
}
for (const [name, { program, driver, packages }] of Object.entries(LANGUAGES)) {
  TESTS[name] = {
    file: 'languages',
    programs: () => {
      const path = FOLDERS.map((folder) => resolve(folder, program)).find(existsSync)
      return path === undefined || !existsSync(driver ?? '') ? {} : { [name]: path }
    },
    remedy: `apt-get install ${packages}`,
  }
}

const words = process.argv.slice(2)
const allowMissing = words.includes('--allow-missing')
const named = words.filter((word) => word !== '--allow-missing' && word !== '--languages')
const wanted = words.includes('--languages') && named.length === 0 ? Object.keys(LANGUAGES) : named
const unknown = wanted.find((word) => TESTS[word] === undefined)
if (unknown !== undefined) fail(`${unknown}: expected ${Object.keys(TESTS).join(', ')} or --allow-missing`)

ensureBuilt()
const found = new Map((wanted.length > 0 ? wanted : Object.keys(TESTS)).map((name) => [name, TESTS[name].programs()]))
const present = [...found].filter(([, programs]) => Object.keys(programs).length > 0)
const missing = [...found.keys()].filter((name) => !present.some(([one]) => one === name))
if (present.length > 0) {
  const env = { ...process.env, SYMPHONY_TEST_PROGRAMS: JSON.stringify(Object.fromEntries(present)) }
  const files = new Set(present.map(([name]) => `tests/debian/${TESTS[name].file ?? name}.check.ts`))
  const { status } = spawnSync(
    process.execPath,
    [vitest, 'run', '--config', 'tests/debian/vitest.config.ts', ...files],
    {
      cwd: root,
      stdio: 'inherit',
      env,
    },
  )
  if (status !== 0) process.exit(status ?? 1)
}
for (const [name, programs] of present) print(`ran      ${name}: ${Object.values(programs).join(', ')}`)
for (const name of missing) print(`NOT RUN  ${name}: its program is not installed. Remedy: ${TESTS[name].remedy}`)
if (missing.length > 0 && !allowMissing) fail('Some tests did not run. --allow-missing accepts that.')

/** Returns, for each tested server version, a folder with programs of that version. */
function versionedFolders(...programs) {
  const folders = FOLDERS.filter((folder) => programs.every((program) => existsSync(join(folder, program))))
  const versions = folders.map((folder) => [majorVersion(join(folder, programs[0])), folder])
  return Object.fromEntries(versions.filter(([version]) => SERVER_VERSIONS.has(version)).toReversed())
}

function majorVersion(program) {
  const { stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' })
  return /\(PostgreSQL\) (\d+)/.exec(stdout ?? '')?.[1]
}

function listed(folder) {
  return existsSync(folder) ? readdirSync(folder) : []
}

function print(line) {
  process.stdout.write(`${line}\n`)
}

function fail(why) {
  process.stderr.write(`${why}\n`)
  process.exit(1)
}
