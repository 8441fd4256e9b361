import { Command } from 'commander'
import type { Cli } from './terminal/Terminal.js'
import { packageVersion, programName } from './terminal/installation.js'
import { EXIT, EXIT_CODES_HELP, reportError } from './terminal/reportError.js'

type Register = (program: Command, cli: Cli) => void

/** Commands in the order of the help, each with the import that registers it. */
const COMMANDS: Readonly<Record<string, () => Promise<Register>>> = {
  start: async () => (await import('./commands/processes.js')).registerStart,
  api: async () => (await import('./commands/processes.js')).registerApi,
  worker: async () => (await import('./commands/processes.js')).registerWorker,
  scheduler: async () => (await import('./commands/processes.js')).registerScheduler,
  demo: async () => (await import('./commands/demo/demo.js')).registerDemo,
  deploy: async () => (await import('./commands/deploy.js')).registerDeploy,
  doctor: async () => (await import('./commands/deploy.js')).registerDoctor,
  enqueue: async () => (await import('./commands/enqueue.js')).registerEnqueue,
  status: async () => (await import('./commands/status.js')).registerStatus,
  alerts: async () => (await import('./commands/status.js')).registerAlerts,
  workers: async () => (await import('./commands/status.js')).registerWorkers,
  show: async () => (await import('./commands/show.js')).registerShow,
  cancel: async () => (await import('./commands/cancel.js')).registerCancel,
  dlq: async () => (await import('./commands/dlq.js')).registerDlq,
  redrive: async () => (await import('./commands/dlq.js')).registerRedrive,
  holds: async () => (await import('./commands/holds.js')).registerHolds,
  approve: async () => (await import('./commands/proposals.js')).registerApprove,
  withdraw: async () => (await import('./commands/proposals.js')).registerWithdraw,
  contradictions: async () => (await import('./commands/contradictions.js')).registerContradictions,
  statement: async () => (await import('./commands/statement.js')).registerStatement,
  return: async () => (await import('./commands/return.js')).registerReturn,
  limits: async () => (await import('./commands/limits.js')).registerLimits,
  reconcile: async () => (await import('./commands/reconcile.js')).registerReconcile,
  findings: async () => (await import('./commands/findings.js')).registerFindings,
  pause: async () => (await import('./commands/pause.js')).registerPause,
  resume: async () => (await import('./commands/pause.js')).registerResume,
  freeze: async () => (await import('./commands/freeze.js')).registerFreeze,
  leases: async () => (await import('./commands/leases.js')).registerLeases,
  inbox: async () => (await import('./commands/inbox.js')).registerInbox,
  jobs: async () => (await import('./commands/jobs.js')).registerJobs,
  timers: async () => (await import('./commands/jobs.js')).registerTimers,
  keys: async () => (await import('./commands/keys.js')).registerKeys,
  sessions: async () => (await import('./commands/sessions.js')).registerSessions,
  vault: async () => (await import('./commands/vault.js')).registerVault,
  ledger: async () => (await import('./commands/ledger/ledger.js')).registerLedger,
  evidence: async () => (await import('./commands/ledger/evidence.js')).registerEvidence,
  db: async () => (await import('./commands/db.js')).registerDb,
  completion: async () => (await import('./commands/completion.js')).registerCompletion,
}

const VERSION_OPTIONS = new Set(['-V', '--version'])

export const COMMAND_NAMES: readonly string[] = Object.keys(COMMANDS)

/** Runs one command line and returns its exit code. Never throws. */
export async function run(argv: readonly string[], cli: Cli): Promise<number> {
  try {
    const program = await createProgram(argv, cli)
    await program.parseAsync(argv)
    return EXIT.ok
  } catch (error) {
    return reportError(error, {
      terminal: cli.terminal,
      // Reads argv, because an invalid command line has no parsed options.
      json: argv.includes('--json'),
      debug: argv.includes('--debug') || (cli.env['SYMPHONY_DEBUG'] ?? '') !== '',
    })
  }
}

/** Returns the program with the requested command, or with all commands. */
export async function createProgram(argv: readonly string[], cli: Cli): Promise<Command> {
  const program = new Command(programName(argv[1]))
    .description('Money-safe dispatch on PostgreSQL.')
    .version(packageVersion())
    .option('--debug', 'show stack traces (also: SYMPHONY_DEBUG=1)')
    .addHelpText('after', EXIT_CODES_HELP)
    // All commands inherit these settings: commander throws its errors, and only reportError prints them.
    .exitOverride()
    .configureOutput({
      writeOut: (text) => cli.terminal.print(text.trimEnd()),
      writeErr: (text) => cli.terminal.note(text.trimEnd()),
      outputError: () => {},
    })
  for (const load of commandsFor(argv)) (await load())(program, cli)
  return program
}

/**
 * Returns only the requested command, so that `symphony status` does not load the HTTP server. Returns none for the
 * version, and all without a known command, because the help lists them.
 */
function commandsFor(argv: readonly string[]): readonly (() => Promise<Register>)[] {
  const words = argv.slice(2)
  if (words.length > 0 && words.every((one) => VERSION_OPTIONS.has(one))) return []
  const word = words.find((one) => !one.startsWith('-')) ?? ''
  // `completion` needs all commands.
  const asked = Object.hasOwn(COMMANDS, word) && word !== 'completion' ? COMMANDS[word] : undefined
  return asked === undefined ? Object.values(COMMANDS) : [asked]
}
