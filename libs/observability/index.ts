/** Metrics and log lines, made from the events that workers emit. The only room that knows a metric's name. */
export { logRelayerEvents, logRepairEvents, logSchedulerEvents, logSealerEvents } from './eventLog.js'
export { OutboxMetrics } from './OutboxMetrics.js'
export { StatusGauges } from './StatusGauges.js'
