import type { Finding, Guardrail } from './guardrail.js'
import { isSql, type Repository } from './repository.js'
import { sqlOf } from './sqlFragments.js'
import { child, list, nodesNamed, parseSql, statementOf, text, type SqlNode } from './sqlParser.js'
import { tokensOf, type Token } from './typescriptTokens.js'

/**
 * The codes that schema/ raises, those that libs/db maps and those in the reference are the same. schema/ may also
 * raise a condition of PostgreSQL (`serialization_failure`) that libs/db maps.
 */
export const sqlstatesAgree: Guardrail = {
  name: 'SQLSTATEs that are raised, mapped and documented are the same',
  check: (repository) => {
    const raised = [...raisedStates(repository)]
    const mapped = mappedStates(repository)
    const documented = documentedStates(repository)
    const raisedCodes = new Set(raised.map(({ state }) => state))
    return [
      ...raised.flatMap((raise) => defectsOf(raise, mapped)),
      ...raised.flatMap((raise) => unnamedIn(raise, documented)),
      ...[...mapped.own]
        .filter(([code]) => !raisedCodes.has(code))
        .map(([code, line]) => never(MAPPING, line, code, 'mapped')),
      ...[...mapped.own.keys()]
        .filter((code) => !documented.has(code))
        .map((code) => ({ file: REFERENCE, line: 1, message: `${code} has no heading` })),
      ...[...documented]
        .filter(([code]) => !raisedCodes.has(code))
        .map(([code, { line }]) => never(REFERENCE, line, code, 'documented')),
    ]
  },
}

const MAPPING = 'libs/db/sqlstates.ts'
const REFERENCE = 'docs/reference/errors.md'
/** Code of a RAISE without ERRCODE. Only the append-only trigger of the ledger may use it. */
const BARE_RAISE_CODE = 'P0001'
const APPEND_ONLY_GUARD = 'refuse_mutation'

interface Raise {
  readonly file: string
  readonly line: number
  readonly functionName: string
  /** Five-character code or condition name; undefined if the code is computed. */
  readonly state: string | undefined
  readonly message: string
}

function defectsOf(raise: Raise, mapped: MappedStates): Finding[] {
  const at = (message: string) => [{ file: raise.file, line: raise.line, message }]
  if (raise.state === undefined) return at('raises a computed SQLSTATE; write it as a constant')
  if (raise.state === BARE_RAISE_CODE && raise.functionName !== APPEND_ONLY_GUARD) {
    return at(`raises P0001, which is reserved for ${APPEND_ONLY_GUARD}; name an ERRCODE`)
  }
  if (mapped.own.has(raise.state) || mapped.postgres.has(raise.state)) return []
  return at(`raises ${raise.state}, which ${MAPPING} does not map`)
}

/** Finds P70xx errors whose message does not start with the name of the code. Some clients show only the message. */
function unnamedIn({ file, line, state = '', message }: Raise, documented: DocumentedStates): Finding[] {
  const name = documented.get(state)?.name
  if (!state.startsWith('P7') || name === undefined || message.startsWith(`${name}: `)) return []
  return [{ file, line, message: `raises ${state} with a message that does not begin with "${name}: "` }]
}

function never(file: string, line: number, code: string, where: string): Finding {
  return { file, line, message: `${code} is ${where}, but nothing in schema/ raises it` }
}

function* raisedStates(repository: Repository): Generator<Raise> {
  for (const file of repository.filter((one) => isSql(one) && one.path.startsWith('schema/'))) {
    for (const body of sqlOf(file).bodies) {
      for (const raise of nodesNamed(body.tree, 'PLpgSQL_stmt_raise')) {
        // Skips levels below ERROR, and `RAISE;`, which rethrows a caught error.
        if (Number(raise['elog_level']) < ERROR_LEVEL || isReRaise(raise)) continue
        const line = body.firstLine + Number(raise['lineno'] ?? 1) - 1
        yield { file: file.path, line, functionName: body.functionName, ...statementIn(raise) }
      }
    }
  }
}

const ERROR_LEVEL = 21
const ERRCODE_OPTION = 0

function isReRaise(raise: SqlNode): boolean {
  return raise['message'] === undefined && raise['condname'] === undefined && raise['options'] === undefined
}

function statementIn(raise: SqlNode): Pick<Raise, 'state' | 'message'> {
  return { state: stateOf(raise), message: text(raise, 'message') ?? '' }
}

function stateOf(raise: SqlNode): string | undefined {
  const named = text(raise, 'condname')
  if (named !== undefined) return named
  const options = list(raise, 'options').map((option) => child(option, 'PLpgSQL_raise_option'))
  const errcode = options.find((option) => Number(option['opt_type'] ?? ERRCODE_OPTION) === ERRCODE_OPTION)
  if (errcode === undefined) return BARE_RAISE_CODE
  const expression = child(errcode, 'expr', 'PLpgSQL_expr')
  const [statement] = parseSql(statementOf(text(expression, 'query') ?? '', Number(expression['parseMode'])))
  const target = list(child(statement?.node ?? {}, 'SelectStmt'), 'targetList')[0] ?? {}
  return text(child(target, 'ResTarget', 'val', 'A_Const', 'sval'), 'sval')
}

interface MappedStates {
  /** Symphony's codes, each with its line. */
  readonly own: ReadonlyMap<string, number>
  /** Codes and condition names of PostgreSQL. */
  readonly postgres: ReadonlySet<string>
}

function mappedStates(repository: Repository): MappedStates {
  const file = repository.find(({ path }) => path === MAPPING)
  const tokens = file === undefined ? [] : tokensOf(file)
  const own = initializerOf(tokens, 'RAISED_SQLSTATES').filter(({ text: code }) => CODE.test(code))
  const postgres = initializerOf(tokens, 'SQLSTATE_DISPOSITIONS').filter(
    ({ text: name }) => CODE.test(name) || CONDITION.test(name),
  )
  return {
    own: new Map(own.map(({ text: code, line }) => [code, line])),
    postgres: new Set(postgres.map(({ text: name }) => name)),
  }
}

/**
 * Pattern of a SQLSTATE: five capitals and digits with at least one digit. No error class or condition name matches.
 */
const CODE = /^(?=.*\d)[0-9A-Z]{5}$/
const CONDITION = /^[a-z]+(?:_[a-z]+)+$/

/** Returns the tokens of the object or call that initializes `const <name>`, up to its closing bracket. */
function initializerOf(tokens: readonly Token[], name: string): Token[] {
  const declared = tokens.findIndex((token, at) => token.text === name && tokens[at - 1]?.text === 'const')
  const start = tokens.findIndex((token, at) => at > declared && token.text === '=' && tokens[at + 1]?.text !== '>')
  if (declared === -1 || start === -1) return []
  let depth = 0
  const end = tokens.findIndex(({ kind, text: bracket }, at) => {
    if (at <= start || kind !== 'punctuator') return false
    if ('({['.includes(bracket)) depth += 1
    if (')}]'.includes(bracket)) depth -= 1
    return depth === 0 && ')}]'.includes(bracket)
  })
  return tokens.slice(start, end + 1)
}

type DocumentedStates = ReadonlyMap<string, { readonly line: number; readonly name: string }>

/** Returns the codes in headings of the reference, such as `### P7002 LEASE_LOST`, with or without backticks. */
function documentedStates(repository: Repository): DocumentedStates {
  const reference = repository.find(({ path }) => path === REFERENCE)?.text ?? ''
  return new Map(
    reference.split('\n').flatMap((line, index) => {
      const [, code, name = ''] = /^#{2,4}\s+`?([0-9A-Z]{5})\b`?(?: ([A-Z_]+))?/.exec(line) ?? []
      return code === undefined ? [] : [[code, { line: index + 1, name }] as const]
    }),
  )
}
