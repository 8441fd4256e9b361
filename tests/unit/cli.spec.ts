import { Writable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { decideEach } from '../../libs/cli/operator/operator.js'
import { describeServer, showCommand } from '../../libs/cli/processes/runStart.js'
import { urlOfLogin } from '../../libs/cli/processes/secrets.js'
import { run } from '../../libs/cli/program.js'
import { reportError } from '../../libs/cli/terminal/reportError.js'
import { Terminal } from '../../libs/cli/terminal/Terminal.js'
import { SymphonyError } from '../../libs/core/index.js'
import { toDatabaseError } from '../../libs/db/index.js'

/** Creates a terminal whose streams record their output. */
function recorder({ isTTY = false, env = {} }: { isTTY?: boolean; env?: Record<string, string> } = {}) {
  const written = { stdout: '', stderr: '' }
  const stream = (name: 'stdout' | 'stderr') =>
    Object.assign(
      new Writable({
        write(chunk, _encoding, done) {
          written[name] += String(chunk)
          done()
        },
      }),
      { isTTY },
    )
  const terminal = new Terminal({ stdout: stream('stdout'), stderr: stream('stderr'), env })
  return { written, terminal, cli: { env, terminal, signal: new AbortController().signal } }
}

async function symphony(words: string, env: Record<string, string> = {}) {
  const { written, cli } = recorder({ env })
  const exitCode = await run(['node', 'symphony', ...words.split(' ').filter(Boolean)], cli)
  return { exitCode, ...written }
}

function report(error: unknown) {
  const { written, terminal } = recorder()
  const exitCode = reportError(error, { terminal, json: false, debug: false })
  return { exitCode, stderr: written.stderr }
}

describe('on the command line', () => {
  test('--help goes to stdout and documents the exit codes', async () => {
    const { exitCode, stdout, stderr } = await symphony('--help')
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(stdout).toContain('Exit codes:')
    expect(stdout).toMatch(/130 +interrupted \(SIGINT\) before the command was done/)
    expect(stdout).toContain('for start, worker, api and scheduler: stopped by SIGINT or SIGTERM')
  })

  test('--version prints the version of the package', async () => {
    const { exitCode, stdout } = await symphony('--version')
    expect(exitCode).toBe(0)
    expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  })

  test.each([
    ['', 'Usage: symphony'],
    ['db', 'Usage: symphony db'],
    ['frobnicate', "unknown command 'frobnicate'"],
    ['db strat', 'Did you mean start?'],
    ['db start --prot 1', 'Did you mean --port?'],
    ['db start --port many', 'Expected a whole number, got "many"'],
    ['db start --port 80', 'port: expected a whole number from 1024 to 65535, got 80'],
  ])('"%s" is a usage error: exit code 2, message on stderr', async (words, message) => {
    const { exitCode, stdout, stderr } = await symphony(words)
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' })
    expect(stderr).toContain(message)
    expect(stderr).not.toContain('    at ')
  })

  test('an error prints its message and its remedy, as text and as JSON', async () => {
    const text = await symphony('db url --data-dir /nowhere/at/all')
    expect(text).toEqual({
      exitCode: 3,
      stdout: '',
      stderr:
        'error EMBEDDED_NOT_RUNNING No PostgreSQL runs in /nowhere/at/all.\n' +
        '  what to do Start it: symphony db start --data-dir /nowhere/at/all\n',
    })
    const json = await symphony('db url --json --data-dir /nowhere/at/all')
    expect(json).toMatchObject({ exitCode: 3, stdout: '' })
    expect(JSON.parse(json.stderr)).toEqual({
      error: {
        code: 'EMBEDDED_NOT_RUNNING',
        message: 'No PostgreSQL runs in /nowhere/at/all.',
        causes: [],
        remedy: 'Start it: symphony db start --data-dir /nowhere/at/all',
      },
    })
  })

  test.each([
    ['db url --data-dir /nowhere', {}, false],
    ['--debug db url --data-dir /nowhere', {}, true],
    ['db url --debug --data-dir /nowhere', {}, true],
    ['db url --data-dir /nowhere', { SYMPHONY_DEBUG: '1' }, true],
    ['db url --data-dir /nowhere', { SYMPHONY_DEBUG: '' }, false],
  ])('a stack trace is shown only with --debug or SYMPHONY_DEBUG: "%s", %j, %s', async (words, env, shown) => {
    const { stderr } = await symphony(words, env)
    expect(stderr.includes('    at ')).toBe(shown)
  })
})

describe('reportError', () => {
  test('prints the first line of each cause', () => {
    const cause = new Error('disk full\nand more', { cause: new Error('ENOSPC') })
    expect(report(new SymphonyError('DEPLOYMENT_FILE_FAILED', 'The schema was not deployed.', { cause }))).toEqual({
      exitCode: 1,
      stderr: 'error DEPLOYMENT_FILE_FAILED The schema was not deployed.\n  because disk full\n  because ENOSPC\n',
    })
  })

  test('omits a cause that has the same code and message as the error', () => {
    const cause = Object.assign(new Error('HELD: proposal 7: bob approved it'), {
      severity: 'ERROR',
      code: 'P7006',
      hint: 'Run symphony show.',
    })
    expect(report(toDatabaseError(cause, { phase: 'uncommitted' }))).toEqual({
      exitCode: 1,
      stderr: 'error HELD proposal 7: bob approved it\n  what to do Run symphony show.\n',
    })
  })

  test('omits a cause that adds only the name of a system call', () => {
    const cause = Object.assign(new Error('getaddrinfo ENOTFOUND nowhere.invalid'), {
      code: 'ENOTFOUND',
      syscall: 'getaddrinfo',
    })
    const { stderr } = report(toDatabaseError(cause, { phase: 'connecting', destination: 'nowhere.invalid:5432/shop' }))
    expect(stderr).toBe(
      'error CONNECT_FAILED could not connect to nowhere.invalid:5432/shop: ENOTFOUND\n' +
        '  what to do Correct the host in DATABASE_URL.\n',
    )
  })

  test('ends at a loop in the chain of causes', () => {
    const error = new Error('egg')
    error.cause = new Error('hen', { cause: error })
    expect(report(error).exitCode).toBe(1)
  })

  test.each([
    [new TypeError('x is not a function'), 1, 'error UNEXPECTED x is not a function'],
    ['a thrown string', 1, 'error UNEXPECTED a thrown string'],
    [Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }), 3, 'error ECONNREFUSED'],
  ])('reports %s and suggests --debug', (error, exitCode, text) => {
    const reported = report(error)
    expect(reported.exitCode).toBe(exitCode)
    expect(reported.stderr).toContain(text)
    expect(reported.stderr).toContain('--debug')
  })
})

describe('the terminal class of the command line', () => {
  test.each([
    [{ isTTY: true, env: {} }, true],
    [{ isTTY: false, env: {} }, false],
    [{ isTTY: true, env: { NO_COLOR: '1' } }, false],
    [{ isTTY: true, env: { NO_COLOR: '' } }, true],
    [{ isTTY: true, env: { TERM: 'dumb' } }, false],
  ])('uses colours only on a terminal that allows them: %j, %s', (options, colored) => {
    const { terminal } = recorder(options)
    expect(terminal.colors.red('x') !== 'x').toBe(colored)
    expect(terminal.noteColors.red('x') !== 'x').toBe(colored)
  })

  test('writes bigints to JSON as text, with all their digits', () => {
    const { written, terminal } = recorder()
    terminal.printJson({ amountMinor: 9_007_199_254_740_993n })
    expect(written.stdout).toBe('{"amountMinor":"9007199254740993"}\n')
  })
})

test('a bulk decision that stops half-way names the undecided ids and clears its progress bar', async () => {
  const { written, cli } = recorder({ isTTY: true })
  const lost = new Error('the connection was lost')
  const decide = async (id: string) => (id === 'b' ? Promise.reject(lost) : { status: 'PROPOSED' })
  await expect(decideEach(['a', 'b', 'c'], decide, cli)).rejects.toBe(lost)
  expect(written.stderr.endsWith('\u001B[2KThe database answered for 1 of 3. No answer for: b c\n')).toBe(true)
})

test.each([
  ['postgres://u:p@/payments?host=/run/postgresql', '/run/postgresql/payments', '@localhost/payments?host=%2Frun'],
  ['postgres:///payments?user=postgres&password=x', 'localhost/payments', '@localhost/payments'],
  ['postgres://u:p@db:5433/payments', 'db:5433/payments', '@db:5433/payments'],
  ['postgres://db/a@b?user=u&port=5433', 'db:5433/a@b', '@db/a@b?port=5433'],
])('start describes the server %s and replaces its login', (url, described, replaced) => {
  const server = { url, embedded: undefined, stop: async () => {} }
  expect(describeServer(server)).toBe(`Using the database ${described}.`)
  const login = urlOfLogin(url, { name: 'symphony', password: 'secret' })
  expect(login).toContain(`postgres://symphony:secret${replaced}`)
  expect(login).not.toMatch(/user=|password=/)
})

test.each([
  [{}, 'symphony show INV-1'],
  [{ schema: 'payments', dataDir: 'my data' }, "symphony show INV-1 --data-dir 'my data' --schema payments"],
  [{ databaseUrl: 'postgres://given-in-the-environment' }, 'symphony show INV-1'],
  [{ databaseUrl: 'postgres://given-by-a-flag' }, undefined],
])('start with %j prints a show command that reads the same database, or none', (given, printed) => {
  const settings = { databaseUrl: undefined, dataDir: '.symphony', schema: 'symphony', ...given }
  const env = { DATABASE_URL: 'postgres://given-in-the-environment' }
  expect(showCommand('INV-1', settings, env)).toBe(printed)
})

test('the db commands read SYMPHONY_DATA_DIR, and the remedy names that folder', async () => {
  const { stderr } = await symphony('db url', { SYMPHONY_DATA_DIR: '/nowhere/it is' })
  expect(stderr).toContain("symphony db start --data-dir '/nowhere/it is'")
})
