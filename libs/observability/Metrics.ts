import { performance, type EventLoopUtilization } from 'node:perf_hooks'
import { Counter, Gauge, Registry } from 'prom-client'
import { systemClock } from '../core/index.js'
import { OutboxMetrics } from './OutboxMetrics.js'
import { FleetMetrics, InboxMetrics, LeaseMetrics, SchedulerMetrics } from './primitiveMetrics.js'
import { isOfModule, type WorkerEvent } from './WorkerEvent.js'

/** Counters and histograms of one process. Connect them by `symphony.events.on('*', metrics.onEvent)`. */
export class Metrics {
  readonly registry = new Registry()
  readonly outbox = new OutboxMetrics(this.registry)
  readonly inbox = new InboxMetrics(this.registry)
  readonly scheduler = new SchedulerMetrics(this.registry)
  readonly leases = new LeaseMetrics(this.registry)
  readonly fleet = new FleetMetrics(this.registry)

  constructor(build: { readonly version: string }) {
    registerProcessMetrics(this.registry, build)
  }

  /** Counts an event. Events without a metric are ignored. */
  readonly onEvent = (event: WorkerEvent): void => {
    if (isOfModule('outbox', event)) this.outbox.onRelayerEvent(event)
    else if (isOfModule('repair', event)) this.outbox.onRepairEvent(event)
    else if (isOfModule('inbox', event)) this.inbox.onEvent(event)
    else if (isOfModule('scheduler', event)) this.scheduler.onEvent(event)
    else if (isOfModule('lease', event)) this.leases.onEvent(event)
    else if (isOfModule('platform', event)) this.fleet.onEvent(event)
  }
}

/** Registers metrics of the build and the process, whose values are read at each scrape. */
function registerProcessMetrics(registry: Registry, { version }: { readonly version: string }): void {
  const registers: Registry[] = []
  const build = new Gauge({
    name: 'symphony_build_info',
    help: 'Always 1; the labels name the release and the Node.js version.',
    labelNames: ['version', 'node'],
    registers,
  })
  build.set({ version, node: process.versions.node }, 1)
  registry.registerMetric(build)
  const started = new Gauge({ name: 'process_start_time_seconds', help: 'Start time of the process.', registers })
  started.set(systemClock.now().getTime() / 1_000 - process.uptime())
  registry.registerMetric(started)
  const processor = new Counter({
    name: 'process_cpu_seconds_total',
    help: 'CPU time of the process, user and system.',
    registers,
    collect() {
      const { user, system } = process.cpuUsage()
      this.reset()
      this.inc((user + system) / 1_000_000)
    },
  })
  registry.registerMetric(processor)
  const memory = new Gauge({
    name: 'process_resident_memory_bytes',
    help: 'Resident memory of the process.',
    registers,
    collect() {
      this.set(process.memoryUsage.rss())
    },
  })
  registry.registerMetric(memory)
  let before: EventLoopUtilization | undefined
  const loop = new Gauge({
    name: 'nodejs_eventloop_utilization',
    help: 'Utilisation of the event loop since the last scrape, 0 to 1. Near 1, timers and lease renewals are late.',
    registers,
    collect() {
      const now = performance.eventLoopUtilization()
      this.set(performance.eventLoopUtilization(now, before).utilization)
      before = now
    },
  })
  registry.registerMetric(loop)
}
