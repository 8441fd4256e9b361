import type { ComponentChildren } from 'preact'
import type { OutboxItem } from '../../../http/index.js'
import { pathTo } from '../../app/router.js'
import { listDlq, listHolds, listPayments } from '../../data/api.js'
import { useResource, type ResourceHandle } from '../../data/useResource.js'
import { ResourceView } from '../../parts/ResourceView.js'
import { RelativeTime } from '../../parts/RelativeTime.js'
import { Panel } from '../../parts/Panel.js'
import { PaymentCells } from '../../parts/PaymentCells.js'
import { fetched } from '../../parts/fetched.js'
import { StateTag } from '../../parts/StateTag.js'
import { Table } from '../../parts/Table.js'

const SeriesPanel = fetched(
  async () => (await import('../../parts/SeriesPanel.js')).SeriesPanel,
  () => <></>,
)

const NEWEST = 10
const WAITING = 5

interface Shortlist {
  readonly items: readonly OutboxItem[]
  readonly next: string | null
}

/**
 * Overview for a key restricted to participants: their payments, holds and dead letters. Does not show counts of queue,
 * rails and workers, which cover all participants.
 */
export function ParticipantPayments({ participants }: { readonly participants: readonly string[] }) {
  const newest = useShortlist('newest', (signal) => listPayments({ limit: NEWEST }, signal))
  const held = useShortlist('held', async (signal) => itemsOf(await listHolds({ limit: WAITING }, signal)))
  const dead = useShortlist('dead', async (signal) => itemsOf(await listDlq({ limit: WAITING }, signal)))
  return (
    <>
      <header class="page-head">
        <h1>Overview</h1>
        <p class="lead">Your key is restricted to {participants.join(', ')}: you see only their payments.</p>
      </header>
      <div class="stack">
        <SeriesPanel />
        <List title="Held" from={held} href={pathTo(['holds'])} nothing="None of their payments is held." />
        <List title="Dead letters" from={dead} href={pathTo(['dlq'])} nothing="None of their payments has failed." />
        <List title="Newest payments" from={newest} href={pathTo(['payments'])} nothing="They have no payments yet." />
      </div>
    </>
  )
}

function useShortlist(key: string, load: (signal: AbortSignal) => Promise<Shortlist>): ResourceHandle<Shortlist> {
  return useResource({ key, load, concerns: ({ type }) => type === 'items', everyMs: 10_000 })
}

function itemsOf(page: {
  readonly items: readonly { readonly item: OutboxItem }[]
  readonly next: string | null
}): Shortlist {
  return { items: page.items.map(({ item }) => item), next: page.next }
}

interface ListProps {
  readonly title: string
  readonly from: ResourceHandle<Shortlist>
  readonly href: string
  readonly nothing: ComponentChildren
}

function List({ title, from, href, nothing }: ListProps) {
  return (
    <Panel title={title} aside={<a href={href}>Show all</a>} flush>
      <ResourceView from={from} lines={3}>
        {({ items }) =>
          items.length === 0 ? (
            <p class="quiet nothing">{nothing}</p>
          ) : (
            <Table label={title} columns={['Payment', 'Amount', 'Rail', 'State', 'Last answer', 'Created']}>
              {items.map((item) => (
                <tr key={item.outboxId}>
                  <PaymentCells item={item} />
                  <td data-label="State">
                    <StateTag state={item.state} />
                    {item.outcomeUnknown ? <StateTag state="OUTCOME_UNKNOWN" /> : null}
                  </td>
                  <td data-label="Last answer" class="mono quiet">
                    {item.lastRailReference ?? item.lastErrorCode ?? '–'}
                  </td>
                  <td data-label="Created">
                    <RelativeTime at={item.createdAt} />
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </ResourceView>
    </Panel>
  )
}
