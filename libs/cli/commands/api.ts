import type { Command } from 'commander'
import type { Cli } from '../Cli.js'
import { addSettings, resolveSettings, type GivenFlags } from '../resolveSettings.js'
import { ALERTS, API, PROCESS, PROTECTION, TARGET } from '../settings.js'

const SETTINGS_TAKEN = [...TARGET, ...PROTECTION, ...PROCESS, ...API, ...ALERTS] as const

/** `symphony api`: the HTTP API and the dashboard alone, one of the processes of a deployment. */
export function registerApi(program: Command, cli: Cli): void {
  addSettings(
    program.command('api').description('serve the HTTP API and the dashboard until stopped, and nothing else'),
    SETTINGS_TAKEN,
  )
    .addHelpText('after', HELP)
    .action((flags: GivenFlags) => run(flags, cli))
}

const HELP = `
Who asks shows a key (symphony keys create), a token of the identity provider that --oidc names, or the token of
SYMPHONY_ACCESS_TOKEN, which may do everything. It listens on this machine alone unless --host says otherwise; put TLS
before it where others come in. The login needs what "symphony deploy --create-login NAME=api" gives it. What your rails say
about the fields of payloads (--rails) it does: it masks, it refuses, and with --vault-keys it encrypts.

Examples:
  symphony deploy --create-login web=api
  DATABASE_URL=postgres://web:…@db/payments symphony api --port 8080
  symphony api --oidc oidc.json --requests-per-second 50`

async function run(flags: GivenFlags, cli: Cli): Promise<void> {
  const settings = await resolveSettings(SETTINGS_TAKEN, flags, cli)
  // Loaded when asked for: `symphony status` should not wait for an HTTP server.
  const { runApi } = await import('../runApi.js')
  await runApi(settings, cli)
}
