import { isSql, isTypeScript, type SourceFile } from './repository.js'
import { guessSql } from './sqlGuess.js'
import {
  asNode,
  child,
  list,
  nodesNamed,
  parsePlpgsql,
  parseSql,
  statementOf,
  text,
  type SqlNode,
  type SqlStatement,
} from './sqlParser.js'
import { HOLE, tokensOf, type Token } from './typescriptTokens.js'

/** SQL statement in a .sql file, in a function's body or in a TypeScript string. */
export interface SqlFragment {
  readonly node: SqlNode
  readonly line: number
  /** Function that contains the statement; `DO` for an anonymous block; undefined outside functions. */
  readonly inFunction: string | undefined
}

export interface PlpgsqlBody {
  readonly functionName: string
  readonly tree: SqlNode
  /** Line of the file that is line 1 of the tree. */
  readonly firstLine: number
}

export interface SqlContent {
  readonly fragments: readonly SqlFragment[]
  readonly bodies: readonly PlpgsqlBody[]
  /** Lines of the TypeScript strings that contain SQL, including the start of a statement that cannot be parsed. */
  readonly literalLines: readonly number[]
}

export function sqlOf(file: SourceFile): SqlContent {
  const known = cache.get(file)
  if (known !== undefined) return known
  const reader = new SqlReader(file)
  if (isSql(file)) reader.readStatements(file.text, 1, undefined)
  else if (isTypeScript(file)) reader.readLiterals()
  cache.set(file, reader)
  return reader
}

const cache = new WeakMap<SourceFile, SqlContent>()

class SqlReader implements SqlContent {
  readonly fragments: SqlFragment[] = []
  readonly bodies: PlpgsqlBody[] = []
  readonly literalLines: number[] = []
  readonly #file: SourceFile

  constructor(file: SourceFile) {
    this.#file = file
  }

  readStatements(sql: string, firstLine: number, inFunction: string | undefined): void {
    let statements: readonly SqlStatement[]
    try {
      statements = parseSql(sql)
    } catch (error) {
      // Fails, because SQL that cannot be parsed could contain violations.
      throw new Error(`${this.#file.path}:${firstLine}: PostgreSQL's parser refuses this SQL`, { cause: error })
    }
    for (const statement of statements) this.#addStatement(statement, firstLine, inFunction)
  }

  readLiterals(): void {
    for (const { line, source } of joinedLiterals(tokensOf(this.#file))) {
      const guess = guessSql(source)
      if (guess === undefined) continue
      this.literalLines.push(line)
      for (const statement of guess.statements) this.#addStatement(statement, line, undefined)
    }
  }

  #addStatement(statement: SqlStatement, firstLine: number, inFunction: string | undefined): void {
    const line = firstLine + statement.line - 1
    this.fragments.push({ node: statement.node, line, inFunction })
    for (const kind of ['CreateFunctionStmt', 'DoStmt']) {
      const definition = child(statement.node, kind)
      const body = bodyOf(definition)
      if (body === undefined) continue
      const before = statement.text.slice(0, Math.max(0, statement.text.indexOf(body)))
      const bodyLine = line + before.split('\n').length - 1
      const name = functionName(definition) ?? 'DO'
      if (languageOf(definition) === 'sql') this.readStatements(body, bodyLine, name)
      else this.#addBody({ functionName: name, tree: parsePlpgsql(statement.text), firstLine: bodyLine })
    }
  }

  #addBody(body: PlpgsqlBody): void {
    this.bodies.push(body)
    for (const { sql, lineInBody } of expressionsIn(body.tree, 1)) {
      const line = body.firstLine + lineInBody - 1
      this.readStatements(sql, line, body.functionName)
      for (const constant of textConstants(sql)) this.#addDynamic(constant, line, body.functionName)
    }
  }

  /** Adds text that a function may EXECUTE. Replaces `format` placeholders by holes. */
  #addDynamic(constant: string, line: number, inFunction: string): void {
    const source = constant.replaceAll(/%(?:\d+\$)?[Is]/g, HOLE).replaceAll(/%(?:\d+\$)?L/g, `'${HOLE}'`)
    for (const statement of guessSql(source)?.statements ?? []) {
      this.fragments.push({ node: statement.node, line, inFunction })
    }
  }
}

interface Expression {
  readonly sql: string
  readonly lineInBody: number
}

/** Yields the statements and expressions of a body, each with the line of its plpgsql statement. */
function* expressionsIn(tree: unknown, line: number): Generator<Expression> {
  if (Array.isArray(tree)) {
    for (const member of tree) yield* expressionsIn(member, line)
    return
  }
  if (typeof tree !== 'object' || tree === null) return
  const node = asNode(tree)
  const own = typeof node['lineno'] === 'number' ? node['lineno'] : line
  const query = text(node, 'query')
  if (query !== undefined) yield { sql: statementOf(query, Number(node['parseMode'])), lineInBody: own }
  for (const member of Object.values(node)) yield* expressionsIn(member, own)
}

function textConstants(sql: string): string[] {
  return parseSql(sql).flatMap(({ node }) =>
    nodesNamed(node, 'sval').flatMap((constant) => text(constant, 'sval') ?? []),
  )
}

export function functionName(definition: SqlNode): string | undefined {
  const parts = list(definition, 'funcname')
  return text(child(parts.at(-1) ?? {}, 'String'), 'sval')
}

export function optionOf(definition: SqlNode, name: string): SqlNode | undefined {
  const options = [...list(definition, 'options'), ...list(definition, 'args')].map((option) =>
    child(option, 'DefElem'),
  )
  return options.find((option) => text(option, 'defname') === name)
}

export function languageOf(definition: SqlNode): string {
  return text(child(optionOf(definition, 'language') ?? {}, 'arg', 'String'), 'sval') ?? 'plpgsql'
}

/**
 * Returns the text between the dollar quotes; undefined for a SQL-standard body, which is part of the statement's tree.
 */
export function bodyOf(definition: SqlNode): string | undefined {
  const as = child(optionOf(definition, 'as') ?? {}, 'arg')
  return text(child(as, 'String'), 'sval') ?? text(child(list(child(as, 'List'), 'items')[0] ?? {}, 'String'), 'sval')
}

interface Literal {
  readonly source: string
  readonly line: number
}

/** Returns strings and templates. Concatenates those joined by `+`. */
function joinedLiterals(tokens: readonly Token[]): Literal[] {
  const literals: Literal[] = []
  for (let position = 0; position < tokens.length; position += 1) {
    const token = tokens[position]
    if (token === undefined || !isLiteral(token) || isAdvice(tokens, position)) continue
    let source = token.text
    for (let next = tokens[position + 2]; tokens[position + 1]?.text === '+' && next && isLiteral(next);) {
      source += next.text
      position += 2
      next = tokens[position + 2]
    }
    literals.push({ source, line: token.line })
  }
  return literals
}

/** Recognizes `remedy: …`, whose text is advice for people and not SQL of the program. */
function isAdvice(tokens: readonly Token[], position: number): boolean {
  return tokens[position - 1]?.text === ':' && tokens[position - 2]?.text === 'remedy'
}

function isLiteral(token: Token): boolean {
  return token.kind === 'string' || token.kind === 'template'
}
