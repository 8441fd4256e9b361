/** Metrics and log lines, made from the events that workers emit. The only room that knows a metric's name. */
export {
  ALERT_RULES,
  ALERT_THRESHOLDS,
  AlertEvaluator,
  alertRules,
  AlertWatch,
  prometheusRules,
  seriesOf,
} from './alerts/index.js'
export type { Alert, AlertRule, AlertThresholds, Condition, Quantity, Reading } from './alerts/index.js'
export { bridgeToMeter } from './bridgeToMeter.js'
export type { ObservingMeter } from './bridgeToMeter.js'
export {
  logCleanupEvents,
  logInboxEvents,
  logLeaseEvents,
  logPlatformEvents,
  logRelayerEvents,
  logRepairEvents,
  logSchedulerEvents,
  logSealerEvents,
} from './eventLog.js'
export { FleetMetrics } from './FleetMetrics.js'
export { InboxMetrics } from './InboxMetrics.js'
export type { ReceivedMessage } from './InboxMetrics.js'
export { LeaseMetrics } from './LeaseMetrics.js'
export { LedgerMetrics } from './LedgerMetrics.js'
export type { VerifiedLedger } from './LedgerMetrics.js'
export { Metrics } from './Metrics.js'
export { OutboxMetrics } from './OutboxMetrics.js'
export { SchedulerMetrics } from './SchedulerMetrics.js'
export { registryOfStatus } from './registryOfStatus.js'
export type { SystemStatus } from './registryOfStatus.js'
