import { AppError } from '../core/index.js'
import { checkStart, type Finding, type StartCheckOptions } from '../deployment/index.js'
import type { Cli } from './Cli.js'

/**
 * Refuses to start on a server that could forget a payment, or in a schema that is not what this release deployed; says
 * why, and what to do. What is merely unwise is said too, and with `strict` refused.
 */
export async function requireStart(
  { strict = false, ...options }: StartCheckOptions & { readonly strict?: boolean },
  cli: Cli,
): Promise<void> {
  const { refusals, warnings } = await checkStart(options)
  // Before there is a schema, the login is the one that deploys, and must be powerful.
  const unwise = options.part === 'server' ? [] : warnings
  const refused = strict ? [...refusals, ...unwise] : refusals
  if (!strict) for (const finding of unwise) warn(finding, cli)
  const [first, ...others] = refused
  if (first === undefined) return
  const more = others.length === 0 ? '' : ` There are ${others.length} more: symphony doctor`
  throw new AppError(first.code, `Refusing to start. ${describe(first)}.${more}`, { remedy: first.remedy })
}

function warn(finding: Finding, { terminal }: Cli): void {
  terminal.note(
    `${terminal.noteColors.yellow('warning')} ${terminal.noteColors.dim(finding.code)} ${describe(finding)}`,
  )
  terminal.note(`  ${terminal.noteColors.cyan('what to do')} ${finding.remedy}`)
}

function describe({ object, expected, found }: Finding): string {
  return `${object}: expected ${expected}, found ${found}`
}
