import { isDeepStrictEqual } from 'node:util'
import { loadModule, parsePlPgSQLSync } from 'libpg-query'

await loadModule()

/**
 * Checks with PostgreSQL's plpgsql parser that marking changed nothing else: without the markers both trees are equal,
 * line numbers included, and every branch starts with a marker.
 */
export function verifyMarkedBranches(original: string, marked: string, markerSign: string): void {
  const isMarker = (statement: unknown) => {
    const condition = member(member(statement, 'PLpgSQL_stmt_if'), 'cond')
    return condition !== undefined && JSON.stringify(condition).includes(markerSign)
  }
  const before: unknown = parsePlPgSQLSync(original)
  const after: unknown = parsePlPgSQLSync(marked)
  if (!isDeepStrictEqual(without(isMarker, before), without(isMarker, after))) {
    throw new Error('marking the branches changed the function')
  }
  const unmarked = branchListsIn(after, isMarker).filter(({ statements }) => !isMarker(statements[0]))
  if (unmarked.length > 0) {
    throw new Error(
      `branches without a marker: ${unmarked.map(({ name, line }) => `${name} of line ${line}`).join(', ')}`,
    )
  }
}

type IsMarker = (statement: unknown) => boolean

/** Removes markers and lists that become empty without them, because plpgsql treats an empty ELSE as no ELSE. */
function without(isMarker: IsMarker, tree: unknown): unknown {
  if (Array.isArray(tree)) return tree.filter((one) => !isMarker(one)).map((one) => without(isMarker, one))
  if (!isRecord(tree)) return tree
  const members = Object.entries(tree).map(([key, value]) => [key, without(isMarker, value)] as const)
  return Object.fromEntries(members.filter(([, value]) => !Array.isArray(value) || value.length > 0))
}

interface BranchList {
  readonly name: string
  readonly line: number
  readonly statements: readonly unknown[]
}

function branchListsIn(tree: unknown, isMarker: IsMarker): BranchList[] {
  if (Array.isArray(tree)) return tree.flatMap((one) => branchListsIn(one, isMarker))
  if (!isRecord(tree) || isMarker(tree)) return []
  const here = Object.entries(tree).flatMap(([kind, node]) =>
    listNames(kind, node).map((name) => ({
      name: `${kind}.${name}`,
      line: Number(member(node, 'lineno') ?? 1),
      statements: kind === FUNCTION ? entryOf(node) : asList(member(node, name)),
    })),
  )
  return [...here, ...Object.values(tree).flatMap((node) => branchListsIn(node, isMarker))]
}

/**
 * Returns the statements of the body of a function. If the body has a label or handlers, plpgsql wraps it in another
 * block, whose statements are returned.
 */
function entryOf(node: unknown): readonly unknown[] {
  const body = asList(member(member(member(node, 'action'), BLOCK), 'body'))
  const wrapped = member(body[0], BLOCK)
  return wrapped === undefined ? body : asList(member(wrapped, 'body'))
}

const FUNCTION = 'PLpgSQL_function'
const BLOCK = 'PLpgSQL_stmt_block'

/** Returns the members of a node that hold the statements of a branch. A nested block is no branch. */
function listNames(kind: string, node: unknown): readonly string[] {
  switch (kind) {
    case FUNCTION:
    case 'PLpgSQL_stmt_loop':
    case 'PLpgSQL_stmt_while':
    case 'PLpgSQL_stmt_fori':
    case 'PLpgSQL_stmt_fors':
    case 'PLpgSQL_stmt_forc':
    case 'PLpgSQL_stmt_dynfors':
    case 'PLpgSQL_stmt_foreach_a':
      return ['body']
    case 'PLpgSQL_stmt_if':
      return ['then_body', 'else_body']
    case 'PLpgSQL_if_elsif':
    case 'PLpgSQL_case_when':
      return ['stmts']
    case 'PLpgSQL_stmt_case':
      return member(node, 'have_else') === true ? ['else_stmts'] : []
    case 'PLpgSQL_exception':
      return ['action']
    default:
      return []
  }
}

function member(node: unknown, key: string): unknown {
  return isRecord(node) ? node[key] : undefined
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
