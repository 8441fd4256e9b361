import { DOMParser, type Document, type Element } from '@xmldom/xmldom'
import type { StatementEntry, StatementSummary } from '../../libs/reconciliation/index.js'

export interface Statement {
  readonly entries: readonly StatementEntry[]
  readonly summary: StatementSummary
}

/**
 * Reads a camt.053 or camt.054 document with a second parser, which loads the whole document as a tree. It shares no
 * code with `readStatement`, so that a test can compare the two.
 */
export function readCamtByDom(xml: string, account?: string): Statement {
  const document: Document = new DOMParser().parseFromString(xml, 'text/xml')
  const root = document.documentElement
  if (root === null) throw new Error('no root element')
  const statements = [...elements(root, '*/Stmt'), ...elements(root, '*/Ntfctn')]
  let position = 0
  const all = statements.map((statement) => {
    const id = text(statement, 'Acct/Id/IBAN') ?? text(statement, 'Acct/Id/Othr/Id')
    const entries = elements(statement, 'Ntry').flatMap((entry) => {
      const details = elements(entry, 'NtryDtls/TxDtls')
      const one = (detail: Element | undefined) => {
        position += 1
        return readEntry(id, entry, detail, details.length < 2, position)
      }
      return details.length === 0 ? [one(undefined)] : details.map(one)
    })
    return { id: text(statement, 'Id'), account: id, entries, period: periodOf(statement, entries) }
  })
  const wanted = all.filter((one) => account === undefined || one.account === account)
  const periods = wanted.flatMap(({ period }) => (period === null ? [] : [period]))
  return {
    entries: wanted.flatMap(({ entries }) => entries),
    summary: {
      statementIds: wanted.flatMap(({ id }) => id ?? []),
      accounts: [...new Set(wanted.flatMap((one) => one.account ?? []))],
      from: periods.length === 0 ? null : new Date(Math.min(...periods.map(([from]) => from))),
      to: periods.length === 0 ? null : new Date(Math.max(...periods.map(([, to]) => to))),
    },
  }
}

function readEntry(
  account: string | null,
  entry: Element,
  detail: Element | undefined,
  isOnly: boolean,
  position: number,
): StatementEntry {
  const of = (path: string) => (detail === undefined ? null : text(detail, path))
  const endToEnd = known(of('Refs/EndToEndId'))
  const instruction = known(of('Refs/InstrId'))
  const ownBank = known(of('Refs/AcctSvcrRef'))
  const entryBank = known(text(entry, 'AcctSvcrRef'))
  const creditors =
    detail === undefined ? [] : elements(detail, 'RmtInf/Strd/CdtrRefInf/Ref').map(trimmed).filter(known)
  const lines = detail === undefined ? [] : elements(detail, 'RmtInf/Ustrd').map(trimmed).filter(known)
  const shownBank = isOnly ? (ownBank ?? entryBank) : ownBank
  const bank = ownBank ?? entryBank
  const own = endToEnd ?? instruction ?? known(of('Refs/TxId'))
  const whole = [endToEnd, instruction, shownBank, ...creditors].flatMap((field) => {
    const hex = field?.replaceAll('-', '').toLowerCase() ?? ''
    return /^[\da-f]{32}$/.test(hex) && (field?.length === 32 || field?.length === 36) ? [hyphened(hex)] : []
  })
  const inText = lines.flatMap((line) =>
    line
      .split(/[^\da-z-]+/i)
      .filter((word) => /^[\da-f]{32}$/i.test(word.replaceAll('-', '')) && (word.length === 32 || word.length === 36))
      .map((word) => hyphened(word.replaceAll('-', '').toLowerCase())),
  )
  const direction = DIRECTIONS.get(of('CdtDbtInd') ?? text(entry, 'CdtDbtInd') ?? '') ?? 'debit'
  const returnCode = of('RtrInf/Rsn/Cd') ?? of('RtrInf/Rsn/Prtry')
  const money = amountOf(entry, detail, isOnly)
  return {
    account,
    bankReference: bank === null ? null : own === null ? bank : `${bank}/${own}`,
    reference: endToEnd ?? instruction ?? shownBank ?? creditors[0] ?? lines[0] ?? null,
    candidates: [...new Set([...whole, ...inText])],
    amount: money?.[0] ?? null,
    currency: money?.[1] ?? null,
    direction,
    status: STATUSES.get(text(entry, 'Sts/Cd') ?? text(entry, 'Sts') ?? '') ?? 'information',
    reversal: text(entry, 'RvslInd') === 'true' || (direction === 'credit' && returnCode !== null),
    bookedOn: (text(entry, 'BookgDt/Dt') ?? text(entry, 'BookgDt/DtTm'))?.slice(0, 10) ?? null,
    valuedOn: (text(entry, 'ValDt/Dt') ?? text(entry, 'ValDt/DtTm'))?.slice(0, 10) ?? null,
    returnCode,
    position,
  }
}

function amountOf(
  entry: Element,
  detail: Element | undefined,
  isOnly: boolean,
): readonly [amount: string, currency: string] | null {
  const booked = read(detail, 'Amt') ?? read(detail, 'AmtDtls/TxAmt/Amt') ?? (isOnly ? read(entry, 'Amt') : null)
  const instructed = read(detail, 'AmtDtls/InstdAmt/Amt') ?? (isOnly ? read(entry, 'AmtDtls/InstdAmt/Amt') : null)
  if (booked === null || (instructed !== null && instructed[1] !== booked[1])) return instructed
  return booked
}

function known(value: string | null): string | null {
  return value === 'NOTPROVIDED' || value === 'NONREF' ? null : value
}

function read(parent: Element | undefined, path: string): readonly [amount: string, currency: string] | null {
  const [found] = parent === undefined ? [] : elements(parent, path)
  return found === undefined ? null : [trimmed(found), found.getAttribute('Ccy') ?? '']
}

/** Returns the start and the exclusive end of the period in milliseconds. */
function periodOf(statement: Element, entries: readonly StatementEntry[]): readonly [number, number] | null {
  const from = text(statement, 'FrToDt/FrDtTm')
  const to = text(statement, 'FrToDt/ToDtTm')
  if (from !== null && to !== null) return [Date.parse(from), Date.parse(to)]
  const balances = elements(statement, 'Bal/Dt/Dt').map(trimmed)
  const booked = entries.filter(({ status }) => status === 'booked')
  const days = balances.length > 0 ? balances : booked.flatMap(({ bookedOn, valuedOn }) => bookedOn ?? valuedOn ?? [])
  if (days.length === 0) return null
  const sorted = days.toSorted()
  return [Date.parse(sorted[0]!), Date.parse(sorted.at(-1)!) + 86_400_000]
}

const DIRECTIONS = new Map<string, StatementEntry['direction']>([
  ['DBIT', 'debit'],
  ['CRDT', 'credit'],
])
const STATUSES = new Map<string, StatementEntry['status']>([
  ['BOOK', 'booked'],
  ['PDNG', 'pending'],
  ['FUTR', 'pending'],
  ['INFO', 'information'],
])

function hyphened(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

function trimmed(element: Element): string {
  return (element.textContent ?? '').trim()
}

/** Returns the text of the first element at a path, or null. */
function text(parent: Element, path: string): string | null {
  const [found] = elements(parent, path)
  return found === undefined || trimmed(found) === '' ? null : trimmed(found)
}

/** Returns the elements at a path of local names. `*` matches any element. */
function elements(parent: Element, path: string): Element[] {
  let level = [parent]
  for (const name of path.split('/')) {
    level = level.flatMap((one) => Array.from(one.children).filter((child) => name === '*' || child.localName === name))
  }
  return level
}
