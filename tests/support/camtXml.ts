import type { StatementEntry, StatementSummary } from '../../libs/reconciliation/index.js'
import { readStatement, type ReadStatementOptions } from '../../libs/reconciliation/index.js'

/** Contents of a camt document, by the names of its elements. Absent fields are omitted. */
export interface CamtDocument {
  readonly format: 'camt053' | 'camt054'
  readonly version: number
  /** Prefix of every tag. */
  readonly prefix?: string
  readonly statements: readonly CamtStatement[]
}

export interface CamtStatement {
  readonly Id: string
  readonly IBAN?: string
  readonly Othr?: string
  readonly FrToDt?: readonly [from: string, to: string]
  readonly balances?: readonly string[]
  readonly entries: readonly CamtEntry[]
}

export type CamtMoney = readonly [amount: string, currency: string]

export interface CamtEntry {
  readonly Amt: CamtMoney
  readonly CdtDbtInd: string
  readonly RvslInd?: string
  readonly Sts: string
  readonly BookgDt?: string
  readonly ValDt?: string
  readonly AcctSvcrRef?: string
  readonly InstdAmt?: CamtMoney
  readonly details?: readonly CamtDetail[]
}

export interface CamtDetail {
  readonly AcctSvcrRef?: string
  readonly InstrId?: string
  readonly EndToEndId?: string
  readonly TxId?: string
  readonly Amt?: CamtMoney
  readonly CdtDbtInd?: string
  readonly InstdAmt?: CamtMoney
  readonly TxAmt?: CamtMoney
  readonly Ustrd?: readonly string[]
  readonly Ref?: readonly string[]
  readonly Rsn?: string
}

/** Writes a document. Newer versions have the status in a child element. */
export function camtXml({ format, version, prefix, statements }: CamtDocument): string {
  const message = format === 'camt053' ? 'camt.053' : 'camt.054'
  const namespace = `urn:iso:std:iso:20022:tech:xsd:${message}.001.${String(version).padStart(2, '0')}`
  const body = el(
    format === 'camt053' ? 'BkToCstmrStmt' : 'BkToCstmrDbtCdtNtfctn',
    el('GrpHdr', el('MsgId', 'message-1') + el('CreDtTm', '2026-01-31T20:00:00Z')) +
      statements
        .map((statement) => el(format === 'camt053' ? 'Stmt' : 'Ntfctn', statementXml(statement, version)))
        .join('\n'),
  )
  const content = `<Document xmlns="${namespace}">\n${body}\n</Document>`
  const tagged =
    prefix === undefined
      ? content
      : content.replaceAll(/<(\/?)(\w)/g, `<$1${prefix}:$2`).replace(' xmlns=', ` xmlns:${prefix}=`)
  return `<?xml version="1.0" encoding="UTF-8"?>\n${tagged}\n`
}

function statementXml({ Id, IBAN, Othr, FrToDt, balances, entries }: CamtStatement, version: number): string {
  return [
    el('Id', Id),
    FrToDt === undefined ? '' : el('FrToDt', el('FrDtTm', FrToDt[0]) + el('ToDtTm', FrToDt[1])),
    el('Acct', el('Id', IBAN === undefined ? el('Othr', el('Id', Othr ?? '1')) : el('IBAN', IBAN))),
    ...(balances ?? []).map((date) =>
      el('Bal', el('Tp', el('CdOrPrtry', el('Cd', 'ITBD'))) + el('Amt', '0.00', 'EUR') + el('Dt', el('Dt', date))),
    ),
    ...entries.map((entry) => el('Ntry', entryXml(entry, version))),
  ].join('\n')
}

function entryXml(entry: CamtEntry, version: number): string {
  return [
    el('NtryRef', '1'),
    money('Amt', entry.Amt),
    el('CdtDbtInd', entry.CdtDbtInd),
    optional('RvslInd', entry.RvslInd),
    el('Sts', version >= 8 ? el('Cd', entry.Sts) : entry.Sts),
    day('BookgDt', entry.BookgDt),
    day('ValDt', entry.ValDt),
    optional('AcctSvcrRef', entry.AcctSvcrRef),
    el('BkTxCd', el('Prtry', el('Cd', 'NTRF'))),
    entry.InstdAmt === undefined ? '' : el('AmtDtls', el('InstdAmt', money('Amt', entry.InstdAmt))),
    entry.details === undefined ? '' : el('NtryDtls', entry.details.map(detailXml).join('\n')),
    el('AddtlNtryInf', 'additional information'),
  ].join('')
}

function detailXml(detail: CamtDetail): string {
  const references = ['AcctSvcrRef', 'InstrId', 'EndToEndId', 'TxId'] as const
  const amounts = ['InstdAmt', 'TxAmt'] as const
  const remittance = [
    ...(detail.Ustrd ?? []).map((line) => el('Ustrd', line)),
    ...(detail.Ref ?? []).map((ref) => el('Strd', el('CdtrRefInf', el('Ref', ref)))),
  ].join('')
  return el(
    'TxDtls',
    [
      el('Refs', references.map((name) => optional(name, detail[name])).join('')),
      detail.Amt === undefined ? '' : money('Amt', detail.Amt),
      optional('CdtDbtInd', detail.CdtDbtInd),
      amounts.some((name) => detail[name] !== undefined)
        ? el('AmtDtls', amounts.map((name) => el(name, money('Amt', detail[name]))).join(''))
        : '',
      el('RltdPties', el('Cdtr', el('Nm', 'Müller & Söhne'))),
      remittance === '' ? '' : el('RmtInf', remittance),
      detail.Rsn === undefined ? '' : el('RtrInf', el('Rsn', el('Cd', detail.Rsn))),
    ].join(''),
  )
}

function el(name: string, content: string, currency?: string): string {
  if (content === '') return ''
  const inner = content.startsWith('<') ? content : escape(content)
  return `<${name}${currency === undefined ? '' : ` Ccy="${currency}"`}>${inner}</${name}>`
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

function optional(name: string, value: string | undefined): string {
  return value === undefined ? '' : el(name, value)
}

function money(name: string, value: CamtMoney | undefined): string {
  return value === undefined ? '' : el(name, value[0], value[1])
}

/** Writes a date element, or a date-time element if the value contains a time. */
function day(name: string, value: string | undefined): string {
  return value === undefined ? '' : el(name, el(value.includes('T') ? 'DtTm' : 'Dt', value))
}

export interface ReadResult {
  readonly entries: readonly StatementEntry[]
  readonly summary: StatementSummary
}

/** Reads a whole statement in chunks of the given size. */
export async function readAll(
  content: string | Uint8Array,
  options: ReadStatementOptions,
  chunkBytes = 65_536,
): Promise<ReadResult> {
  const bytes = Buffer.from(content)
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for (let start = 0; start < bytes.length; start += chunkBytes) yield bytes.subarray(start, start + chunkBytes)
  }
  return collect(chunks(), options)
}

export async function collect(source: AsyncIterable<Uint8Array>, options: ReadStatementOptions): Promise<ReadResult> {
  const reader = readStatement(source, options)
  const entries: StatementEntry[] = []
  for (;;) {
    const { done, value } = await reader.next()
    if (done === true) return { entries, summary: value }
    entries.push(...value)
  }
}
