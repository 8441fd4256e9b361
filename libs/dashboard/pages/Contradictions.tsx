import { useState } from 'preact/hooks'
import type { Contradiction } from '../../http/index.js'
import { pathTo } from '../app/router.js'
import { listContradictions, reviewContradiction } from '../data/api.js'
import { hasScope } from '../data/me.js'
import { useFreshPages } from '../data/useFreshPages.js'
import { usePages } from '../data/usePages.js'
import { Empty } from '../parts/Empty.js'
import { ExportButton } from '../parts/ExportButton.js'
import { RelativeTime } from '../parts/RelativeTime.js'
import { PagedTable } from '../parts/PagedTable.js'
import { ReasonDialog } from '../parts/ReasonDialog.js'
import { styleOfState } from '../parts/states.js'
import { StateTag } from '../parts/StateTag.js'

export function Contradictions() {
  const open = usePages<Contradiction>('open', (cursor, signal) =>
    listContradictions(cursor === undefined ? {} : { cursor }, signal),
  )
  const [chosen, setChosen] = useState<Contradiction | null>(null)
  useFreshPages(open)
  return (
    <>
      <header class="page-head">
        <h1>Contradictions</h1>
        <p class="lead">
          Payments for which a worker reported a different outcome than the ledger records. Compare both with the rail.
        </p>
        <div class="actions">
          <ExportButton path="/v1/contradictions" />
        </div>
      </header>
      <section class="panel" aria-label="Contradictions">
        <PagedTable
          label="Contradictions"
          from={open}
          columns={['Payment', 'Rail', 'Recorded', 'Reported', 'Found', '']}
          row={(value) => <Row key={value.eventId} contradiction={value} onChoose={() => setChosen(value)} />}
          empty={
            <Empty title="No contradiction">
              <p>A payment is listed here when two workers report different outcomes for it.</p>
            </Empty>
          }
        />
      </section>
      {chosen === null ? null : (
        <ReasonDialog
          title={`Review ${chosen.instructionId}`}
          action="Record the review"
          explanation={`The ledger records ${textOf(chosen.recorded)}; ${chosen.actor} reported ${textOf(chosen.reported)}. The alert ends with your review. The recorded outcome of the payment stays as it is.`}
          onClose={() => setChosen(null)}
          act={async (reason) => {
            await reviewContradiction(chosen.eventId, reason)
            open.refresh()
            return `The contradiction of ${chosen.instructionId} is reviewed.`
          }}
        />
      )}
    </>
  )
}

interface RowProps {
  readonly contradiction: Contradiction
  readonly onChoose: () => void
}

function Row({ contradiction, onChoose }: RowProps) {
  const { outboxId, instructionId, participantId, railType, recorded, reported, recordedAt, actor } = contradiction
  return (
    <tr>
      <td data-label="Payment">
        <a href={pathTo(['payments', outboxId])}>{instructionId}</a>
        <div class="quiet">{participantId}</div>
      </td>
      <td data-label="Rail">{railType}</td>
      <td data-label="Recorded">
        <Outcome outcome={recorded} />
      </td>
      <td data-label="Reported">
        <Outcome outcome={reported} />
      </td>
      <td data-label="Found">
        <RelativeTime at={recordedAt} /> <div class="quiet">by {actor}</div>
      </td>
      <td class={hasScope('operate') ? 'actions' : 'empty-cell'}>
        {hasScope('operate') ? (
          <button type="button" class="button small" aria-label={`Review ${instructionId}`} onClick={onChoose}>
            Review
          </button>
        ) : null}
      </td>
    </tr>
  )
}

function textOf({ state, railReference }: Contradiction['recorded']): string {
  return `${styleOfState(state).word.toLowerCase()} (${railReference ?? 'no rail reference'})`
}

function Outcome({ outcome: { state, railReference } }: { readonly outcome: Contradiction['recorded'] }) {
  return (
    <>
      <StateTag state={state} /> <div class="mono quiet">{railReference ?? 'no rail reference'}</div>
    </>
  )
}
