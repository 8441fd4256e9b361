import { formatMoney, parseMoney } from '../../../core/index.js'
import type { StatementFormat } from '../../../reconciliation/index.js'
import { between, type Random } from '../demo/seededRandom.js'
import type { PlannedEntry, PlannedStatement } from './generateStatement.js'

const VERSIONS = ['02', '04', '06', '08', '13']
const BATCH_MAX = 40
/** First version of camt in which the status is a child element with a code. In earlier versions it is text. */
const STATUS_CODES_SINCE = 7

/** Writes camt.053 or camt.054 in a random version, with batch bookings. */
export function* writeCamt(
  statements: readonly PlannedStatement[],
  format: StatementFormat,
  random: Random,
): Generator<string> {
  const version = VERSIONS[between(random, 0, VERSIONS.length - 1)] ?? '08'
  const isStatement = format === 'camt053'
  const [document, element] = isStatement ? ['BkToCstmrStmt', 'Stmt'] : ['BkToCstmrDbtCdtNtfctn', 'Ntfctn']
  const namespace = `urn:iso:std:iso:20022:tech:xsd:camt.${isStatement ? '053' : '054'}.001.${version}`
  yield '<?xml version="1.0" encoding="UTF-8"?>\n'
  yield `<Document xmlns="${namespace}"><${document}>\n`
  const created = (statements.at(-1)?.to ?? new Date(0)).toISOString()
  yield `<GrpHdr><MsgId>${statements[0]?.id}</MsgId><CreDtTm>${created}</CreDtTm></GrpHdr>\n`
  for (const [index, { id, account, from, to, entries }] of statements.entries()) {
    yield `<${element}><Id>${id}</Id><ElctrncSeqNb>${index + 1}</ElctrncSeqNb><CreDtTm>${created}</CreDtTm>`
    yield `<FrToDt><FrDtTm>${from.toISOString()}</FrDtTm><ToDtTm>${to.toISOString()}</ToDtTm></FrToDt>\n`
    yield `<Acct><Id><IBAN>${account}</IBAN></Id><Ccy>EUR</Ccy></Acct>\n`
    for (const group of groupsOf(entries, random)) yield entryText(group, Number(version), random)
    yield `</${element}>\n`
  }
  yield `</${document}></Document>\n`
}

/** Groups the entries into bookings. A batch booking contains several entries of one currency, direction and status. */
function* groupsOf(entries: readonly PlannedEntry[], random: Random): Generator<readonly PlannedEntry[]> {
  for (let first = 0; first < entries.length;) {
    const size = random() < 0.2 ? between(random, 2, BATCH_MAX) : 1
    const group = [entries[first]!]
    while (group.length < size && first + group.length < entries.length) {
      const next = entries[first + group.length]!
      if (!isSameBooking(group[0]!, next)) break
      group.push(next)
    }
    first += group.length
    yield group
  }
}

function isSameBooking(one: PlannedEntry, other: PlannedEntry): boolean {
  return (
    one.batchable &&
    other.batchable &&
    one.exchanged === null &&
    other.exchanged === null &&
    one.currency === other.currency &&
    one.direction === other.direction &&
    one.status === other.status &&
    one.reversal === other.reversal
  )
}

function entryText(group: readonly PlannedEntry[], version: number, random: Random): string {
  const first = group[0]!
  const isBatch = group.length > 1
  // Some banks give a reference only to the batch, not to its entries.
  const hasOwnReferences = !isBatch || random() < 0.7
  const code = { booked: 'BOOK', pending: 'PDNG', information: 'INFO' }[first.status]
  const { amount, currency } = first.exchanged ?? first
  const sum = isBatch ? sumOf(group) : amount
  const details = group.map((entry) => detailsText(entry, { version, isBatch, hasOwnReferences }))
  return [
    `<Ntry><Amt Ccy="${currency}">${sum}</Amt><CdtDbtInd>${first.direction === 'debit' ? 'DBIT' : 'CRDT'}</CdtDbtInd>`,
    first.reversal ? '<RvslInd>true</RvslInd>' : '',
    `<Sts>${version >= STATUS_CODES_SINCE ? `<Cd>${code}</Cd>` : code}</Sts>`,
    `<BookgDt><Dt>${first.bookedOn}</Dt></BookgDt><ValDt><Dt>${first.valuedOn}</Dt></ValDt>`,
    `<AcctSvcrRef>${isBatch ? `BATCH${first.bankReference.slice(4)}` : first.bankReference}</AcctSvcrRef>`,
    '<BkTxCd><Domn><Cd>PMNT</Cd><Fmly><Cd>ICDT</Cd><SubFmlyCd>ESCT</SubFmlyCd></Fmly></Domn></BkTxCd>\n<NtryDtls>',
    isBatch ? `<Btch><NbOfTxs>${group.length}</NbOfTxs></Btch>` : '',
    ...details,
    '</NtryDtls></Ntry>\n',
  ].join('')
}

interface DetailsOptions {
  readonly version: number
  readonly isBatch: boolean
  readonly hasOwnReferences: boolean
}

function detailsText(entry: PlannedEntry, { version, isBatch, hasOwnReferences }: DetailsOptions): string {
  const { exchanged, reference, direction } = entry
  const booked = exchanged ?? entry
  const instructed = exchanged === null ? '' : amountText('InstdAmt', entry)
  const amounts =
    version === 2
      ? `<AmtDtls>${instructed}${amountText('TxAmt', booked)}</AmtDtls>`
      : [
          `<Amt Ccy="${booked.currency}">${booked.amount}</Amt>`,
          `<CdtDbtInd>${direction === 'debit' ? 'DBIT' : 'CRDT'}</CdtDbtInd>`,
          instructed === '' ? '' : `<AmtDtls>${instructed}</AmtDtls>`,
        ].join('')
  const inField = (field: string) => (reference?.field === field ? reference.text : undefined)
  const servicerReference = inField('servicerReference') ?? (isBatch && hasOwnReferences ? entry.bankReference : '')
  return [
    '<TxDtls><Refs>',
    servicerReference === '' ? '' : `<AcctSvcrRef>${servicerReference}</AcctSvcrRef>`,
    inField('instructionId') === undefined ? '' : `<InstrId>${inField('instructionId')}</InstrId>`,
    `<EndToEndId>${inField('endToEndId') ?? 'NOTPROVIDED'}</EndToEndId></Refs>`,
    amounts,
    `<RltdPties><Cdtr>${version >= STATUS_CODES_SINCE ? `<Pty><Nm>${escapeXml(entry.party)}</Nm></Pty>` : `<Nm>${escapeXml(entry.party)}</Nm>`}</Cdtr></RltdPties>`,
    remittanceText(entry),
    entry.returnCode === null ? '' : `<RtrInf><Rsn><Cd>${entry.returnCode}</Cd></Rsn></RtrInf>`,
    '</TxDtls>\n',
  ].join('')
}

function amountText(element: string, { amount, currency }: Pick<PlannedEntry, 'amount' | 'currency'>): string {
  return `<${element}><Amt Ccy="${currency}">${amount}</Amt></${element}>`
}

function remittanceText({ reference }: PlannedEntry): string {
  if (reference?.field === 'creditorReference') {
    return `<RmtInf><Strd><CdtrRefInf><Ref>${reference.text}</Ref></CdtrRefInf></Strd></RmtInf>`
  }
  const text = reference?.field === 'text' ? `Payout ${escapeXml(reference.text)} thank you` : 'Payout'
  return `<RmtInf><Ustrd>${text}</Ustrd></RmtInf>`
}

function sumOf(group: readonly PlannedEntry[]): string {
  const { currency } = group[0]!
  const amountMinor = group.reduce((sum, { amount }) => sum + parseMoney(amount, currency).amountMinor, 0n)
  return formatMoney({ amountMinor, currency })
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
