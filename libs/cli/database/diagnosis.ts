import { SymphonyError, type ErrorCode } from '../../core/index.js'
import { checkStart, type Diagnosis, type Finding, type StartCheckOptions } from '../../deployment/index.js'
import { countOf, type Cli } from '../terminal/Terminal.js'

/**
 * Refuses to start on a server that is not durable, or on a schema that differs from this release. Prints warnings;
 * with `strict`, a warning also refuses the start.
 */
export async function requireStartChecks(
  { strict = false, ...options }: StartCheckOptions & { readonly strict?: boolean },
  cli: Cli,
): Promise<void> {
  const { refusals, warnings } = await checkStart(options)
  // With `part: 'server'` the login belongs to the deployer, who needs the rights that the warnings are about.
  const relevant = options.part === 'server' ? [] : warnings
  const refused = strict ? [...refusals, ...relevant] : refusals
  if (!strict) for (const finding of relevant) warn(finding, cli)
  const [first, ...others] = refused
  if (first === undefined) return
  const more = others.length === 0 ? '' : ` There are ${others.length} more: symphony doctor`
  throw findingError(first, `Refusing to start. ${describe(first)}.${more}`)
}

/**
 * Returns an error with the code of a finding. Codes of checks are the names of SQL files, so `ErrorCode` cannot list
 * them.
 */
export function findingError({ code, remedy }: Pick<Finding, 'code' | 'remedy'>, message: string): SymphonyError {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the command prints the code, and no program branches on it
  return new SymphonyError(code as ErrorCode, message, { remedy })
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

export function printDiagnosis({ schema, ok, findings }: Diagnosis, { terminal }: Cli): void {
  for (const { severity, code, object, expected, found, remedy } of findings) {
    terminal.print(`${colored(severity, terminal.colors)} ${terminal.colors.dim(code)} ${object}`)
    terminal.print(`  expected   ${expected}`)
    terminal.print(`  found      ${found}`)
    terminal.print(`  what to do ${remedy}`)
  }
  if (ok) terminal.print(`The schema ${schema} is what this release deploys.`)
}

/** Throws if the doctor found a difference from this release, so that the exit code is not 0. */
export function requireHealth({ ok, schema, findings }: Diagnosis): void {
  if (ok) return
  const count = findings.filter(({ severity }) => severity !== 'note').length
  throw new SymphonyError(
    'DOCTOR_FOUND_DRIFT',
    `The schema ${schema} is not what was deployed: ${countOf(count, 'finding')}.`,
    {
      remedy: 'Follow the remedy of each finding above.',
    },
  )
}

function colored(severity: Finding['severity'], colors: Cli['terminal']['colors']): string {
  return severity === 'note' ? colors.yellow(severity) : colors.red(severity)
}
