import { symphony } from './symphony.mjs'

const POOLED = ['--pooler', 'transaction']
const POOLER_ERROR = 'TRANSACTION_POOLER'

/**
 * Commands to run through each pooling mode, as documented in docs/operate/pgbouncer.md. `refused` is the expected
 * error code. `PRIMARY` stands for the direct URL, `SESSION` for the URL through a session pooler.
 */
const CASES = [
  { command: 'worker', login: 'relayer', through: 'transaction', flags: [...POOLED, '--no-listen'] },
  { command: 'worker', login: 'relayer', through: 'transaction', flags: [...POOLED, '--listen-url', 'PRIMARY'] },
  { command: 'worker', login: 'relayer', through: 'transaction', flags: POOLED, refused: POOLER_ERROR },
  {
    command: 'worker',
    login: 'relayer',
    through: 'transaction',
    flags: [...POOLED, '--listen-url', 'SESSION'],
    refused: POOLER_ERROR,
  },
  { command: 'scheduler', login: 'relayer', through: 'transaction', flags: [...POOLED, '--no-listen'] },
  { command: 'scheduler', login: 'relayer', through: 'transaction', flags: [...POOLED, '--listen-url', 'PRIMARY'] },
  { command: 'api', login: 'web', through: 'transaction', flags: POOLED },
  { command: 'enqueue', login: 'shop', through: 'transaction', flags: POOLED },
  { command: 'status', login: 'relayer', through: 'transaction', flags: POOLED },
  { command: 'status', login: 'relayer', through: 'transaction', flags: [], refused: POOLER_ERROR },
  { command: 'status', login: 'relayer', through: 'session', flags: POOLED },
  { command: 'status', login: 'relayer', through: 'session', flags: [], refused: POOLER_ERROR },
  { command: 'status', login: 'relayer', through: 'nothing', flags: [] },
  { command: 'deploy', login: 'postgres', through: 'transaction', flags: [] },
  { command: 'doctor', login: 'postgres', through: 'transaction', flags: [] },
]

const PAYLOAD = '{"amount":"1.00","currency":"EUR","destination":"DE89370400440532013000"}'

/** Further arguments of each command. */
const WORDS = {
  api: ['--port', '0'],
  enqueue: ['--instruction', 'pooled', '--participant', 'pooled', '--rail', 'resend', '--payload', PAYLOAD],
  scheduler: ['--no-http'],
  worker: ['--no-http'],
}

/** First output of each long-running command. The command is stopped after it. */
const AT_WORK = { api: 'The API listens', scheduler: 'The scheduler', worker: 'Worker' }

/** Runs every case. Returns the error code of each, and whether it is the documented one. */
export async function tryPoolingModes({ urlOf, rails, onResult }) {
  const results = []
  for (const { command, login, through, flags, refused } of CASES) {
    const addresses = { PRIMARY: urlOf(login, 'nothing'), SESSION: urlOf(login, 'session') }
    const words = [command, ...(WORDS[command] ?? []), ...flags.map((flag) => addresses[flag] ?? flag)]
    if (command === 'worker') words.push('--rails', rails)
    const { exitCode, stdout, stderr } = await symphony(words, urlOf(login, through), { stopWhen: AT_WORK[command] })
    const code = exitCode === 0 ? undefined : (/\b[A-Z]+(?:_[A-Z]+)+\b/.exec(stderr)?.[0] ?? `exit code ${exitCode}`)
    const result = { command, through, flags, code, asExpected: code === refused }
    results.push(result)
    onResult(result, result.asExpected ? '' : `${stdout}${stderr}`.trim())
  }
  return results
}
