import type { Finding, Guardrail } from './guardrail.js'
import { isSql, type SourceFile } from './repository.js'
import { bodyOf, functionName, optionOf, sqlOf } from './sqlFragments.js'
import { child, list, nodesNamed, text, type SqlNode } from './sqlParser.js'

/**
 * Every function states its options instead of relying on defaults. The search path matters most: with the caller's
 * path, a SECURITY DEFINER function would run the caller's objects with the owner's rights.
 */
export const functionsDeclareOptions: Guardrail = {
  name: 'each function states language, volatility and search path, and is documented',
  check: (repository) => {
    const files = repository.filter((file) => isSql(file) && file.path.startsWith('schema/'))
    const commented = new Set(files.flatMap((file) => [...commentedFunctions(file)]))
    return files.flatMap((file) => findingsIn(file, commented))
  },
}

function findingsIn(file: SourceFile, commented: ReadonlySet<string>): Finding[] {
  return sqlOf(file).fragments.flatMap(({ node, line }) => {
    const definition = child(node, 'CreateFunctionStmt')
    const name = functionName(definition)
    if (name === undefined) return []
    return [...defects(definition, commented)].map((defect) => ({
      file: file.path,
      line,
      message: `${name}: ${defect}`,
    }))
  })
}

function* defects(definition: SqlNode, commented: ReadonlySet<string>): Generator<string> {
  if (optionOf(definition, 'language') === undefined) yield 'state its LANGUAGE'
  if (optionOf(definition, 'volatility') === undefined) yield 'state its volatility'
  const isDefiner = child(optionOf(definition, 'security') ?? {}, 'arg', 'Boolean')['boolval'] === true
  // PostgreSQL resolves the names in a SQL-standard body at creation, and those in any other body by the search path of
  // each call.
  const isLateBound = bodyOf(definition) !== undefined
  if ((isDefiner || isLateBound) && !fixesSearchPath(definition)) yield 'say SET search_path FROM CURRENT'
  if (!commented.has(functionName(definition) ?? '')) yield 'has no COMMENT ON FUNCTION'
  for (const parameter of list(definition, 'parameters').map((one) => child(one, 'FunctionParameter'))) {
    const given = INPUT_MODES.has(text(parameter, 'mode') ?? '')
    if (given && !text(parameter, 'name')?.startsWith('p_'))
      yield `name its parameters p_…, not ${text(parameter, 'name')}`
  }
}

const INPUT_MODES = new Set(['FUNC_PARAM_DEFAULT', 'FUNC_PARAM_IN', 'FUNC_PARAM_INOUT', 'FUNC_PARAM_VARIADIC'])

function fixesSearchPath(definition: SqlNode): boolean {
  return list(definition, 'options')
    .map((option) => child(option, 'DefElem', 'arg', 'VariableSetStmt'))
    .some((set) => text(set, 'name') === 'search_path' && text(set, 'kind') === 'VAR_SET_CURRENT')
}

function* commentedFunctions(file: SourceFile): Generator<string> {
  for (const { node } of sqlOf(file).fragments) {
    for (const comment of nodesNamed(node, 'CommentStmt')) {
      const parts = list(child(comment, 'object', 'ObjectWithArgs'), 'objname')
      const name = text(child(parts.at(-1) ?? {}, 'String'), 'sval')
      if (name !== undefined) yield name
    }
  }
}
