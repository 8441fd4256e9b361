import type { Command } from 'commander'
import { InvalidArgumentError } from '../../core/index.js'
import { deploy, doctor, parseLoginRequest, type DeployReport, type LoginRequest } from '../../deployment/index.js'
import { printDiagnosis, requireHealth } from '../database/diagnosis.js'
import { addDatabaseSettings, resolveDatabase, type DatabaseFlags } from '../database/target.js'
import { jsonOption } from '../settings/options.js'
import type { Cli } from '../terminal/Terminal.js'

interface DeployCommandOptions extends DatabaseFlags {
  readonly dryRun?: boolean
  readonly rolesOnly?: boolean
  readonly dropLegacy?: boolean
  readonly reapply?: boolean
  readonly dedicatedDatabase?: boolean
  readonly createLogin: readonly string[]
  readonly json?: boolean
}

export function registerDeploy(program: Command, cli: Cli): void {
  addDatabaseSettings(
    program.command('deploy').description('deploy the schema of this release to a database; safe to repeat'),
  )
    .option('--dry-run', 'print the SQL and change nothing')
    .option('--roles-only', 'create only the roles and the logins, for example before a restore')
    .option('--drop-legacy', 'drop the previous outbox: its view, its table, its type')
    .option('--reapply', 'apply every file, even unchanged ones: repairs functions, views, triggers, indexes')
    .option('--dedicated-database', 'revoke TEMP and CREATE in this database from PUBLIC')
    .option(
      '--create-login <name=role>',
      'create a login and print its generated password; may be repeated',
      collect,
      [],
    )
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action((options: DeployCommandOptions) => runDeploy(options, cli))
}

const HELP = `
Roles for --create-login: ingest, for an application that enqueues in its own transactions; executor, control,
readonly, auditor, or several joined by +, for processes of Symphony and for operators, who switch to them; api, for
"symphony api": the privileges of its routes, and the right to act for owners of API keys, which the database verifies;
api+names, the same for an identity provider or the access token: this login can act as any person.
For a single login, SYMPHONY_LOGIN_PASSWORD sets the password. An existing login keeps its password.

The deploying login needs CREATEROLE and CREATE on the database. Without them, the command prints the SQL that a DBA
has to run first.

Examples:
  symphony deploy --dry-run > deployment.sql
  symphony deploy --create-login shop=ingest --create-login relayer=executor
  symphony deploy --create-login web=api --create-login alice=control`

async function runDeploy(options: DeployCommandOptions, cli: Cli): Promise<void> {
  const report = await deploy({
    ...(await resolveDatabase(options, cli)),
    dryRun: options.dryRun === true,
    rolesOnly: options.rolesOnly === true,
    dropLegacy: options.dropLegacy === true,
    reapply: options.reapply === true,
    dedicatedDatabase: options.dedicatedDatabase === true,
    createLogins: loginRequests(options.createLogin, cli),
  })
  if (options.json === true) return cli.terminal.printJson(report)
  if (report.sql === undefined) printReport(report, cli)
  else cli.terminal.printRaw(report.sql)
}

function printReport({ outcome, schema, release, logins }: DeployReport, { terminal, env }: Cli): void {
  terminal.print(describeOutcome(outcome, schema, release))
  for (const login of logins) terminal.print(describeLogin(login, givenPassword(env) !== ''))
}

function describeLogin({ name, created, password }: DeployReport['logins'][number], given: boolean): string {
  if (!created) {
    const unchanged = given ? ` Its password was not changed. To change it, run \\password ${name} in psql.` : ''
    return `The login ${name} already existed; it has the requested roles.${unchanged}`
  }
  return password === undefined
    ? `The login ${name} was created with the password of SYMPHONY_LOGIN_PASSWORD.`
    : `The login ${name} was created. Its password, shown only now: ${password}`
}

function describeOutcome(outcome: DeployReport['outcome'], schema: string, release: string): string {
  if (outcome === 'roles') return `The roles of release ${release} exist on this server. No schema was changed.`
  return outcome === 'deployed'
    ? `Release ${release} is deployed to the schema ${schema}.`
    : `The schema ${schema} is at release ${release} already. Its privileges were applied again.`
}

function loginRequests(texts: readonly string[], { env }: Cli): readonly LoginRequest[] {
  const requests = texts.map(parseLoginRequest)
  const password = givenPassword(env)
  if (password === '' || requests.length === 0) return requests
  const [only, ...others] = requests
  if (only === undefined || others.length > 0) {
    throw new InvalidArgumentError('SYMPHONY_LOGIN_PASSWORD', 'expected exactly one --create-login, got several')
  }
  return [{ ...only, password }]
}

function givenPassword(env: Cli['env']): string {
  return env['SYMPHONY_LOGIN_PASSWORD'] ?? ''
}

function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value]
}

interface DoctorCommandOptions extends DatabaseFlags {
  readonly full?: boolean
  readonly json?: boolean
}

export function registerDoctor(program: Command, cli: Cli): void {
  addDatabaseSettings(
    program.command('doctor').description('compare a database with what this release deploys; changes nothing'),
  )
    .option('--full', 'check every item, not only the newest ones')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
The login must be a member of symphony_auditor, or a superuser. The exit code is 1 if a finding is more than a note.

Examples:
  symphony doctor --full
  symphony doctor --json | jq '.findings[].code'`,
    )
    .action((options: DoctorCommandOptions) => runDoctor(options, cli))
}

async function runDoctor(options: DoctorCommandOptions, cli: Cli): Promise<void> {
  const diagnosis = await doctor({
    ...(await resolveDatabase(options, cli)),
    full: options.full === true,
  })
  if (options.json === true) cli.terminal.printJson(diagnosis)
  else printDiagnosis(diagnosis, cli)
  requireHealth(diagnosis)
}
