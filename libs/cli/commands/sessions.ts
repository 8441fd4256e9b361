import type { Command } from 'commander'
import { readBrowserSessions, revokeBrowserSession, type BrowserSessionStatus } from '../../access/index.js'
import { InvalidArgumentError } from '../../core/index.js'
import { addOperatorOptions, asControl, printResult } from '../operator/operator.js'
import { addExamples } from '../settings/options.js'
import type { GivenFlags } from '../settings/resolveSettings.js'
import { countOf, type Cli } from '../terminal/Terminal.js'

export function registerSessions(program: Command, cli: Cli): void {
  const sessions = program
    .command('sessions')
    .description('people who signed in to the dashboard at an identity provider')
    .addHelpText('after', HELP)

  addOperatorOptions(
    addExamples(sessions.command('list'), 'symphony sessions list', 'symphony sessions list --all --json').description(
      'list active sessions, newest first',
    ),
  )
    .option('--all', 'also sessions of the last 30 days that have ended')
    .action((flags: GivenFlags) => list(flags, cli))

  addOperatorOptions(
    addExamples(
      sessions.command('revoke'),
      'symphony sessions revoke s3ss10n000000000',
      'symphony sessions revoke --owner alice@example.com',
    )
      .description('end a session for ever; servers refuse it within five seconds')
      .argument('[session-id]'),
  )
    .option('--owner <person>', 'end every active session of this person, in any letter case')
    .action((sessionId: string | undefined, flags: GivenFlags) => revoke(sessionId, flags, cli))
}

const HELP = `
A session begins with a sign-in and lasts at most 8 hours. A revoked person can sign in again until the identity provider
refuses them, so lock the account there first.

Examples:
  symphony sessions list
  symphony sessions revoke s3ss10n000000000
  symphony sessions revoke --owner alice@example.com`

async function list(flags: GivenFlags, cli: Cli): Promise<void> {
  const { terminal } = cli
  const found = await asControl('sessions', flags, cli, readBrowserSessions)
  const sessions = flags['all'] === true ? found : found.filter(isActive)
  if (flags['json'] === true) return terminal.printJson({ sessions })
  if (sessions.length === 0) terminal.print('There are no sessions.')
  const { bold, dim } = terminal.colors
  for (const { sessionId, owner, status, scopes, participants, createdAt, createdBy, ...session } of sessions) {
    terminal.print(`${bold(sessionId)} ${owner} ${bold(status)} ${scopes.join('+')}`)
    const facts = [
      participants === null ? undefined : `for ${participants.join(', ')}`,
      `created ${createdAt.toISOString()} by ${createdBy}`,
      `signed in at ${session.issuer}`,
      `expires ${session.expiresAt.toISOString()}`,
      session.revokedBy === null ? undefined : `ended by ${session.revokedBy}`,
    ]
    terminal.print(`  ${dim(facts.filter((fact) => fact !== undefined).join('; '))}`)
  }
}

async function revoke(sessionId: string | undefined, flags: GivenFlags, cli: Cli): Promise<void> {
  if ((sessionId === undefined) === (flags['owner'] === undefined)) {
    throw new InvalidArgumentError('session-id', 'expected the id of a session, or --owner')
  }
  if (sessionId !== undefined) {
    const changed = await asControl('sessions', flags, cli, (control) => revokeBrowserSession(control, sessionId))
    const sentence = `The session ${sessionId} ${changed ? 'is revoked' : 'was revoked already'}.`
    return printResult({ sessionId, changed }, sentence, flags, cli)
  }
  const owner = String(flags['owner'])
  const revoked = await asControl('sessions', flags, cli, async (control) => {
    const ended: string[] = []
    const found = await readBrowserSessions(control, owner)
    if (found.length === 0) {
      const remedy = 'List the owners: symphony sessions list --all'
      throw new InvalidArgumentError('--owner', `expected a person with a session, got "${owner}". ${remedy}`)
    }
    for (const { sessionId: id } of found.filter(isActive)) {
      if (await revokeBrowserSession(control, id)) ended.push(id)
    }
    return ended
  })
  printResult({ owner, revoked }, `${countOf(revoked.length, 'session')} of ${owner} revoked.`, flags, cli)
}

function isActive({ status }: BrowserSessionStatus): boolean {
  return status === 'ACTIVE'
}
