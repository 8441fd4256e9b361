/** Panel, from which Grafana's JSON is generated. */
interface Panel {
  readonly title: string
  readonly description: string
  /** PromQL expressions, each with its legend. */
  readonly queries: readonly (readonly [expression: string, legend: string])[]
  readonly unit?: 's' | 'ms' | 'short' | 'ops' | 'bytes' | 'percentunit'
  readonly kind?: 'stat' | 'timeseries'
  /** Value from which the panel is red. */
  readonly alarmingFrom?: number
}

interface Row {
  readonly title: string
  readonly panels: readonly Panel[]
}

const worst = (metric: string): string => `max(${metric}{job=~"$job"})`
/** Returns the expression for the sum of payments and messages of all deployments. */
const total = (metric: string): string => `sum(max by (job, kind) (${metric}{job=~"$job"}))`
/**
 * Returns the expression for a count in the database, without the label `kind`. Every process of a deployment reports the
 * same count, so it uses `max` within a deployment.
 */
const count = (metric: string, by = ''): string => {
  const counts = `max by (job${by === '' ? '' : `, ${by}`}) (${metric}{job=~"$job"})`
  return by === '' ? `sum(${counts})` : `sum by (${by}) (${counts})`
}
const rate = (metric: string, by = ''): string =>
  `sum${by === '' ? '' : ` by (${by})`} (rate(${metric}{job=~"$job"}[$__rate_interval]))`
/**
 * Returns the expression for the rate of a counter in the database. Every process of a deployment reports the same
 * counter, so it uses `max` within a deployment.
 */
const ledgerRate = (metric: string, by = ''): string => {
  const labels = by === '' ? '' : `${by}, `
  const rates = `max by (job, ${labels}kind) (rate(${metric}{job=~"$job"}[$__rate_interval]))`
  return `sum${by === '' ? '' : ` by (${by})`} (${rates})`
}
const quantile = (q: number, histogram: string, by = ''): string =>
  `histogram_quantile(${q}, sum by (le${by === '' ? '' : `, ${by}`}) (rate(${histogram}_bucket{job=~"$job"}[$__rate_interval])))`

const ROWS: readonly Row[] = [
  {
    title: 'At a glance',
    panels: [
      {
        title: 'Pending',
        description: 'Items without a terminal outcome.',
        queries: [[total('outbox_pending_depth'), 'pending']],
        kind: 'stat',
      },
      {
        title: 'Longest due',
        description: 'Age of the item that has been due longest.',
        queries: [[worst('oldest_due_age_seconds'), 'due']],
        unit: 's',
        kind: 'stat',
        alarmingFrom: 300,
      },
      {
        title: 'Held',
        description: 'Items held for a decision by an operator.',
        queries: [[total('outbox_held_count'), 'held']],
        kind: 'stat',
        alarmingFrom: 1,
      },
      {
        title: 'Outcome unknown',
        description: 'Items that the rail may have paid, without a definitive answer.',
        queries: [[total('outbox_outcome_unknown_count'), 'unknown']],
        kind: 'stat',
      },
      {
        title: 'Failed',
        description: 'Items that ended as FAILED.',
        queries: [[total('dlq_depth'), 'failed']],
        kind: 'stat',
      },
      {
        title: 'Expired leases',
        description: 'Expired leases that are not yet repaired or taken over.',
        queries: [[total('expired_lease_count'), 'expired']],
        kind: 'stat',
        alarmingFrom: 1,
      },
      {
        title: 'Workers alive',
        description: 'Relayers with a heartbeat in the last minute.',
        queries: [[count('outbox_workers_alive'), 'workers']],
        kind: 'stat',
      },
      {
        title: 'Chain breaks',
        description: 'Found by the latest verification of the ledger; empty before the first.',
        queries: [[worst('ledger_chain_breaks'), 'breaks']],
        kind: 'stat',
        alarmingFrom: 1,
      },
    ],
  },
  {
    title: 'Queue',
    panels: [
      {
        title: 'Depth',
        description: 'Pending items by state, without those scheduled for later.',
        queries: [
          [total('outbox_due_depth'), 'due'],
          [total('outbox_leased_count'), 'in flight'],
          [total('outbox_blocked_count'), 'blocked'],
          [total('outbox_held_count'), 'held'],
        ],
      },
      {
        title: 'Attempts a second',
        description: 'Ledger rows by state.',
        queries: [[ledgerRate('attempts_total', 'state'), '{{state}}']],
        unit: 'ops',
      },
      {
        title: 'Enqueue to terminal outcome',
        description: 'Time from enqueue to the terminal outcome, by percentile.',
        queries: [
          [quantile(0.5, 'time_to_terminal_seconds'), 'median'],
          [quantile(0.99, 'time_to_terminal_seconds'), '99 %'],
        ],
        unit: 's',
      },
      {
        title: 'Claim lag',
        description: 'Delay from the due time to the claim, by the database’s clock.',
        queries: [
          [quantile(0.5, 'claim_lag_seconds'), 'median'],
          [quantile(0.99, 'claim_lag_seconds'), '99 %'],
        ],
        unit: 's',
      },
      {
        title: 'Held, by reason',
        description: 'Held items per hold reason.',
        queries: [[count('outbox_held_by_reason', 'reason'), '{{reason}}']],
      },
      {
        title: 'Open findings',
        description: 'Findings of reconciliation that no operator has closed, by kind.',
        queries: [[count('reconciliation_findings_open', 'kind'), '{{kind}}']],
      },
      {
        title: 'Leases lost and repaired',
        description: 'Lost and expired leases. Small numbers are normal.',
        queries: [
          [rate('lease_lost_count'), 'lost'],
          [ledgerRate('reaper_requeues_total'), 'requeued'],
          [rate('late_outcomes_total'), 'late outcomes'],
        ],
        unit: 'ops',
      },
    ],
  },
  {
    title: 'Rails',
    panels: [
      {
        title: 'Answer time, 99 %',
        description: 'From the call of a rail to its answer.',
        queries: [[quantile(0.99, 'dispatch_latency_ms', 'rail'), '{{rail}}']],
        unit: 'ms',
      },
      {
        title: 'Errors a second',
        description: 'Calls that did not succeed.',
        queries: [[rate('rail_errors_total', 'rail, error'), '{{rail}} {{error}}']],
        unit: 'ops',
      },
      {
        title: 'Calls in flight',
        description: 'Running calls, summed over all processes.',
        queries: [['sum by (rail) (rail_calls_in_flight{job=~"$job"})', '{{rail}}']],
      },
      {
        title: 'Breaker',
        description: '1: the circuit breaker is open. 0.5: half-open, one trial call. 0: closed.',
        queries: [['max by (rail) (rail_breaker_open{job=~"$job"})', '{{rail}}']],
      },
      {
        title: 'Unknown codes',
        description: 'Answer codes that the rail’s code table does not contain.',
        queries: [[rate('rail_unknown_codes_total', 'rail'), '{{rail}}']],
        unit: 'ops',
      },
    ],
  },
  {
    title: 'Inbox, scheduler, leases',
    panels: [
      {
        title: 'Inbox',
        description: 'Messages by state.',
        queries: [[count('inbox_depth', 'state'), '{{state}}']],
      },
      {
        title: 'Messages a second',
        description: 'Messages received, and their results.',
        queries: [
          [rate('inbox_received_total', 'result'), 'received: {{result}}'],
          [rate('inbox_handled_total'), 'handled'],
          [rate('inbox_abandoned_total'), 'abandoned'],
          [rate('inbox_died_total'), 'died'],
        ],
        unit: 'ops',
      },
      {
        title: 'Scheduler lag',
        description: 'Age of the timer or job that has been due longest.',
        queries: [[worst('scheduler_lag_seconds'), 'lag']],
        unit: 's',
      },
      {
        title: 'Runs and timers a second',
        description: 'Job runs created; runs and timers enqueued or refused.',
        queries: [
          [rate('scheduler_runs_created_total'), 'runs'],
          [rate('scheduler_enqueued_total', 'kind'), 'enqueued: {{kind}}'],
          [rate('scheduler_refused_total', 'kind'), 'refused: {{kind}}'],
        ],
        unit: 'ops',
      },
      {
        title: 'Leases',
        description: 'Leases held now, and leases lost.',
        queries: [
          [count('leases_held'), 'held'],
          [rate('leases_lost_total', 'reason'), 'lost a second: {{reason}}'],
        ],
      },
    ],
  },
  {
    title: 'Processes',
    panels: [
      {
        title: 'Connections',
        description: 'Connections of each process, in use or idle.',
        queries: [
          ['sum by (instance, state) (db_pool_connections{job=~"$job"})', '{{instance}} {{state}}'],
          ['sum by (instance) (db_pool_waiting{job=~"$job"})', '{{instance}} waiting'],
        ],
      },
      {
        title: 'Event loop',
        description: 'Event loop utilization. Near 1, timers and lease renewals are late.',
        queries: [['nodejs_eventloop_utilization{job=~"$job"}', '{{instance}}']],
        unit: 'percentunit',
      },
      {
        title: 'Memory',
        description: 'Memory of each process.',
        queries: [['process_resident_memory_bytes{job=~"$job"}', '{{instance}}']],
        unit: 'bytes',
      },
      {
        title: 'Faults a second',
        description: 'Errors that are not lost races.',
        queries: [[rate('worker_faults_total', 'during'), '{{during}}']],
        unit: 'ops',
      },
    ],
  },
]

export function grafanaDashboard(): string {
  return `${JSON.stringify(
    {
      uid: 'symphony',
      title: 'Symphony',
      description: 'Outbox, rails and workers. Generated by `npm run monitoring`.',
      tags: ['symphony'],
      schemaVersion: 39,
      editable: true,
      refresh: '10s',
      time: { from: 'now-1h', to: 'now' },
      templating: { list: [datasourceVariable(), jobVariable()] },
      panels: placed(ROWS),
    },
    null,
    2,
  )}\n`
}

/** Returns all expressions, for the test that each metric exists. */
export function dashboardExpressions(): string[] {
  return ROWS.flatMap(({ panels }) => panels.flatMap(({ queries }) => queries.map(([expression]) => expression)))
}

const DATASOURCE = { type: 'prometheus', uid: '${datasource}' }

function datasourceVariable(): object {
  return { name: 'datasource', label: 'Prometheus', type: 'datasource', query: 'prometheus' }
}

function jobVariable(): object {
  return {
    name: 'job',
    label: 'Deployment',
    type: 'query',
    datasource: DATASOURCE,
    query: 'label_values(outbox_pending_depth, job)',
    refresh: 2,
    includeAll: true,
    multi: true,
    current: { text: 'All', value: '$__all' },
  }
}

/** Places panels in a grid: eight stat panels or three charts per row. */
function placed(rows: readonly Row[]): object[] {
  const shown: object[] = []
  let id = 0
  let y = 0
  for (const { title, panels } of rows) {
    shown.push({ id: (id += 1), type: 'row', title, collapsed: false, gridPos: { x: 0, y, w: 24, h: 1 }, panels: [] })
    y += 1
    let x = 0
    let height = 0
    for (const panel of panels) {
      const [w, h] = panel.kind === 'stat' ? [3, 4] : [8, 8]
      if (x + w > 24) {
        x = 0
        y += height
      }
      height = h
      shown.push(panelJson((id += 1), panel, { x, y, w, h }))
      x += w
    }
    y += height
  }
  return shown
}

function panelJson(id: number, panel: Panel, gridPos: object): object {
  const { title, description, queries, unit = 'short', kind = 'timeseries', alarmingFrom } = panel
  const steps = [
    { color: 'green', value: null },
    ...(alarmingFrom === undefined ? [] : [{ color: 'red', value: alarmingFrom }]),
  ]
  return {
    id,
    type: kind,
    title,
    description,
    datasource: DATASOURCE,
    gridPos,
    fieldConfig: { defaults: { unit, min: 0, thresholds: { mode: 'absolute', steps } }, overrides: [] },
    targets: queries.map(([expr, legendFormat], index) => ({
      refId: String.fromCodePoint(65 + index),
      datasource: DATASOURCE,
      expr,
      legendFormat,
    })),
  }
}
