import { loadModule, scanSync, type ScanToken } from 'libpg-query'

await loadModule()

export type BranchKind = 'entry' | 'then' | 'elsif' | 'else' | 'no else' | 'when' | 'case else' | 'loop' | 'handler'

export interface PlpgsqlBranch {
  readonly kind: BranchKind
  /** Line number as in error contexts of PostgreSQL, where the line of the opening `$$` is 1. */
  readonly line: number
  /** Text of that line. */
  readonly source: string
}

export interface MarkedBody {
  readonly body: string
  readonly branches: readonly PlpgsqlBranch[]
}

/**
 * Puts a marker at the start of every branch of a plpgsql body: entry, IF, ELSIF, ELSE (added if missing), CASE branch,
 * loop body, exception handler. Conditions inside SQL and EXIT WHEN are expressions, not branches.
 *
 * A marker follows its keyword on the same line, so that line numbers in errors do not change.
 */
export function markBranches(body: string, marker: (ordinal: number) => string): MarkedBody {
  return new BranchMarker(body, marker).run()
}

class BranchMarker {
  /** The body as bytes, because the scanner counts bytes. */
  readonly #bytes: Buffer
  readonly #tokens: readonly ScanToken[]
  readonly #marker: (ordinal: number) => string
  readonly #branches: PlpgsqlBranch[] = []
  readonly #insertions: { readonly at: number; readonly text: string }[] = []
  #position = 0

  constructor(body: string, marker: (ordinal: number) => string) {
    this.#bytes = Buffer.from(body)
    this.#tokens = scanSync(body).tokens.filter(({ tokenName }) => !tokenName.endsWith('COMMENT'))
    this.#marker = marker
  }

  run(): MarkedBody {
    this.#block('entry')
    let body = ''
    let from = 0
    for (const { at, text } of this.#insertions) {
      body += this.#bytes.subarray(from, at).toString() + text
      from = at
    }
    return { body: body + this.#bytes.subarray(from).toString(), branches: this.#branches }
  }

  /** Reads a block: [options] [label] [DECLARE …] BEGIN … [EXCEPTION WHEN … THEN …] END */
  #block(kind?: 'entry'): void {
    this.#skipPast('BEGIN')
    if (kind !== undefined) this.#mark(kind)
    this.#statements()
    if (this.#word() === 'EXCEPTION') {
      this.#position += 1
      while (this.#word() === 'WHEN') this.#branch('THEN', 'handler')
    }
    this.#expect('END')
    if (this.#position < this.#tokens.length) this.#skipPast(';')
  }

  #statements(): void {
    while (!ENDS_OF_A_LIST.has(this.#word())) {
      if (this.#position >= this.#tokens.length) throw this.#unreadable('END')
      this.#statement()
    }
  }

  #statement(): void {
    switch (this.#word()) {
      case '<<':
        return this.#skipPast('>>')
      case 'DECLARE':
      case 'BEGIN':
        return this.#block()
      case 'IF':
        return this.#if()
      case 'CASE':
        return this.#case()
      case 'LOOP':
      case 'WHILE':
      case 'FOR':
      case 'FOREACH':
        this.#branch('LOOP', 'loop')
        this.#expect('END')
        return this.#skipPast(';')
      default:
        return this.#skipPast(';')
    }
  }

  #if(): void {
    const opened = this.#tokens[this.#position]
    this.#branch('THEN', 'then')
    while (this.#word() === 'ELSIF' || this.#word() === 'ELSEIF') this.#branch('THEN', 'elsif')
    if (this.#word() === 'ELSE') this.#branch('ELSE', 'else')
    else this.#insertElse(opened?.start ?? 0)
    this.#expect('END')
    this.#skipPast(';')
  }

  /**
   * Marks the branches of a CASE. A CASE without ELSE raises 20000 if nothing matches; this implicit branch has no
   * marker.
   */
  #case(): void {
    this.#skipTo('WHEN')
    while (this.#word() === 'WHEN') this.#branch('THEN', 'when')
    if (this.#word() === 'ELSE') this.#branch('ELSE', 'case else')
    this.#expect('END')
    this.#skipPast(';')
  }

  /** Marks the branch that the next `keyword` opens, and reads its statements. */
  #branch(keyword: string, kind: BranchKind): void {
    this.#skipPast(keyword)
    this.#mark(kind)
    this.#statements()
  }

  #mark(kind: BranchKind): void {
    const at = this.#tokens[this.#position - 1]?.end ?? 0
    this.#insertions.push({ at, text: ` ${this.#add(kind, at)}` })
  }

  /** Adds an ELSE before the next END IF. It is reported with the line of its IF. */
  #insertElse(ifAt: number): void {
    const at = this.#tokens[this.#position]?.start ?? 0
    this.#insertions.push({ at, text: `ELSE ${this.#add('no else', ifAt)} ` })
  }

  #add(kind: BranchKind, at: number): string {
    const line = this.#lineAt(at)
    const source = (this.#bytes.toString().split('\n')[line - 1] ?? '').trim()
    return this.#marker(this.#branches.push({ kind, line, source }) - 1)
  }

  #lineAt(at: number): number {
    return this.#bytes.subarray(0, at).toString().split('\n').length
  }

  #word(): string {
    return this.#tokens[this.#position]?.text.toUpperCase() ?? ''
  }

  #expect(keyword: string): void {
    if (this.#word() !== keyword) throw this.#unreadable(keyword)
    this.#position += 1
  }

  #skipPast(keyword: string): void {
    this.#skipTo(keyword)
    this.#position += 1
  }

  /** Skips to the first `keyword` outside parentheses, as plpgsql does. */
  #skipTo(keyword: string): void {
    for (let open = 0; open > 0 || this.#word() !== keyword; this.#position += 1) {
      if (this.#position >= this.#tokens.length) throw this.#unreadable(keyword)
      if ('(['.includes(this.#word())) open += 1
      if (')]'.includes(this.#word())) open -= 1
    }
  }

  #unreadable(expected: string): Error {
    const at = this.#tokens[this.#position]?.start ?? this.#bytes.length
    return new Error(`plpgsql body, line ${this.#lineAt(at)}: expected ${expected}, got "${this.#word()}"`)
  }
}

const ENDS_OF_A_LIST = new Set(['END', 'ELSE', 'ELSIF', 'ELSEIF', 'WHEN', 'EXCEPTION'])
