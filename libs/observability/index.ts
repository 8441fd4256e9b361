/** Metrics and log lines, made from the events that workers emit. The only room that knows a metric's name. */
export { logCleanupEvents, logRelayerEvents, logRepairEvents, logSchedulerEvents } from './eventLog.js'
export { OutboxMetrics } from './OutboxMetrics.js'
export { StatusGauges } from './StatusGauges.js'
