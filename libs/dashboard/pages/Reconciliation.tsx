import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { Finding, Run } from '../../http/index.js'
import { pathTo, route, setQuery } from '../app/router.js'
import { count, plural } from '../data/format.js'
import { hasScope } from '../data/me.js'
import { closeFinding, listFindings, listRuns } from '../data/reconciliation.js'
import { useFreshPages } from '../data/useFreshPages.js'
import { usePages, type PagesHandle } from '../data/usePages.js'
import { Empty } from '../parts/Empty.js'
import { ExportButton } from '../parts/ExportButton.js'
import { FindingCard, KINDS } from '../parts/FindingCard.js'
import { PagedTable } from '../parts/PagedTable.js'
import { Panel } from '../parts/Panel.js'
import { ProblemNote } from '../parts/ProblemNote.js'
import { ReasonDialog } from '../parts/ReasonDialog.js'
import { RelativeTime } from '../parts/RelativeTime.js'
import { Skeleton } from '../parts/Skeleton.js'
import { UploadDialog } from './reconciliation/UploadDialog.js'

export { BankPanel } from './payment/BankPanel.js'

export function Reconciliation() {
  const { state = 'open', kind = '', run = '' } = route.value.query
  const runs = usePages<Run>('runs', (cursor, signal) => listRuns(cursor === undefined ? {} : { cursor }, signal))
  const findings = usePages<Finding>(`${state} ${kind} ${run}`, (cursor, signal) =>
    listFindings({ state, kind, run, ...(cursor === undefined ? {} : { cursor }) }, signal),
  )
  useFreshPages(runs)
  useFreshPages(findings)
  const [isUploading, setIsUploading] = useState(false)
  const [chosen, setChosen] = useState<Finding | null>(null)
  const refresh = () => {
    runs.refresh()
    findings.refresh()
  }
  const hasNoRun = runs.state.value.rows.length === 0 && runs.state.value.next === null
  const compare = hasScope('operate') ? <CompareButton onClick={() => setIsUploading(true)} /> : null
  return (
    <>
      <header class="page-head">
        <h1>Reconciliation</h1>
        <p class="lead">Compares the ledger with the statements of the bank. A person closes each difference.</p>
        {hasNoRun ? null : (
          <div class="actions">
            <ExportButton path="/v1/findings" query={{ state, kind, run }} />
            {compare}
          </div>
        )}
      </header>
      {hasNoRun ? (
        <section class="panel" aria-label="Runs">
          <NoRuns>{compare}</NoRuns>
        </section>
      ) : (
        <div class="stack">
          <FindingsPanel findings={findings} state={state} kind={kind} run={run} onClose={setChosen} />
          <Panel title="Runs" flush>
            <PagedTable
              label="Runs"
              from={runs}
              columns={[
                'Compared',
                'Rail',
                'Statement',
                { number: 'Entries' },
                { number: 'Matched' },
                'Findings',
                'Open',
              ]}
              row={(value) => <RunRow key={value.runId} run={value} />}
              empty={<></>}
            />
          </Panel>
        </div>
      )}
      {isUploading ? <UploadDialog onClose={() => setIsUploading(false)} onDone={refresh} /> : null}
      {chosen === null ? null : (
        <ReasonDialog
          title={`Close: ${KINDS[chosen.kind].word.toLowerCase()}`}
          action="Close the finding"
          explanation={`${chosen.payment?.instructionId ?? 'The entry'} is settled with the bank. The payment and the statement stay as they are.`}
          onClose={() => setChosen(null)}
          act={async (reason) => {
            await closeFinding(chosen.findingId ?? '', reason)
            refresh()
            return 'The finding is closed.'
          }}
        />
      )}
    </>
  )
}

function CompareButton({ onClick }: { readonly onClick: () => void }) {
  return (
    <button type="button" class="button primary" onClick={onClick}>
      Compare a statement
    </button>
  )
}

function NoRuns({ children }: { readonly children: ComponentChildren }) {
  return (
    <Empty title="No statement was compared yet">
      <p>
        Get a statement of the account that pays your payments: camt.053, camt.054, CSV or NDJSON. Compare it here, or
        every night with <code>symphony reconcile --rail RAIL --statement FILE --format camt053</code>.
      </p>
      <p>Symphony then lists payments that were paid twice, not at all, with another amount, or returned.</p>
      {children}
    </Empty>
  )
}

interface FindingsPanelProps {
  readonly findings: PagesHandle<Finding>
  readonly state: string
  readonly kind: string
  readonly run: string
  readonly onClose: (finding: Finding) => void
}

function FindingsPanel({ findings, state, kind, run, onClose }: FindingsPanelProps) {
  const { rows, next, problem, isLoading } = findings.state.value
  return (
    <section aria-label="Findings">
      <div class="filters">
        <select
          class="input"
          aria-label="State"
          value={state}
          onChange={({ currentTarget }) => setQuery({ state: currentTarget.value })}
        >
          <option value="open">Open</option>
          <option value="closed">Closed</option>
        </select>
        <select
          class="input"
          aria-label="Kind"
          value={kind}
          onChange={({ currentTarget }) => setQuery({ kind: currentTarget.value })}
        >
          <option value="">Any kind</option>
          {Object.entries(KINDS).map(([value, { word }]) => (
            <option key={value} value={value}>
              {word}
            </option>
          ))}
        </select>
        {run === '' ? null : (
          <button type="button" class="button" onClick={() => setQuery({ run: '' })}>
            Show all runs
          </button>
        )}
      </div>
      <Panel title={state === 'closed' ? 'Closed findings' : 'Open findings'} flush>
        {problem === undefined ? null : <ProblemNote problem={problem} onRetry={findings.refresh} />}
        {rows.length > 0 ? (
          <ul class="findings">
            {rows.map((finding) => (
              <FindingCard
                key={finding.findingId}
                finding={finding}
                action={<CloseButton finding={finding} onClick={() => onClose(finding)} />}
              />
            ))}
          </ul>
        ) : next === undefined ? (
          <Skeleton lines={6} />
        ) : (
          <Empty title={state === 'closed' ? 'No closed finding' : 'No open finding'}>
            <p>
              {kind === '' && run === '' ? 'The statements and the ledger agree.' : 'No finding matches the filters.'}
            </p>
          </Empty>
        )}
        {typeof next === 'string' ? (
          <p class="more">
            <button type="button" class="button small" disabled={isLoading} onClick={findings.more}>
              Show more
            </button>
          </p>
        ) : null}
      </Panel>
    </section>
  )
}

function CloseButton({ finding, onClick }: { readonly finding: Finding; readonly onClick: () => void }) {
  if (!hasScope('operate') || finding.closed !== null) return null
  const name = finding.payment?.instructionId ?? 'the entry'
  return (
    <button type="button" class="button small" aria-label={`Close the finding about ${name}`} onClick={onClick}>
      Close
    </button>
  )
}

function RunRow({ run }: { readonly run: Run }) {
  const { runId, railType, format, statementIds, periodFrom, periodTo, entries, counts, openFindings } = run
  return (
    <tr>
      <td data-label="Compared">
        <RelativeTime at={run.createdAt} /> <div class="quiet">by {run.actor}</div>
      </td>
      <td data-label="Rail">{railType}</td>
      <td data-label="Statement" class="text">
        {statementIds.join(', ') || format}
        <div class="quiet">{periodText(periodFrom, periodTo)}</div>
      </td>
      <td data-label="Entries" class="numeric">
        {count(entries)}
      </td>
      <td data-label="Matched" class="numeric">
        {count(counts.matched)}
      </td>
      <td data-label="Findings">{resultText(counts) || 'none'}</td>
      <td data-label="Open" class="nowrap">
        {openFindings === 0 ? (
          '0'
        ) : (
          <a href={pathTo(['reconciliation'], { run: runId })}>
            {count(openFindings)} {plural(openFindings, 'finding')}
          </a>
        )}
      </td>
    </tr>
  )
}

/** Returns the days of a period with an exclusive end. */
function periodText(from: string, to: string): string {
  const [first, last] = [from.slice(0, 10), new Date(Date.parse(to) - 1).toISOString().slice(0, 10)]
  return first === last ? first : `${first} to ${last}`
}

/** Returns the counts of a run except matched payments, such as `2 paid twice, 1 reversed`. */
function resultText(counts: Run['counts']): string {
  return COUNTED.flatMap(([name, word]) => (counts[name] === 0 ? [] : [`${count(counts[name])} ${word}`])).join(', ')
}

const COUNTED = [
  ['paidTwice', 'paid twice'],
  ['paidNotRecorded', 'paid, not recorded'],
  ['recordedNotPaid', 'recorded, not paid'],
  ['amountDiffers', 'amount differs'],
  ['reversed', 'reversed'],
  ['unknownEntry', 'unknown'],
] as const
