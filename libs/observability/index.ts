/** Metrics and log lines, made from the events that workers emit. The only module that knows the names of metrics. */
export { AlertEvaluator, AlertWatch } from './alerts/AlertEvaluator.js'
export type { Alert } from './alerts/AlertEvaluator.js'
export { seriesOf } from './alerts/conditions.js'
export type { Condition, Quantity, MetricSamples } from './alerts/conditions.js'
export { prometheusRules } from './alerts/prometheusRules.js'
export { ALERT_RULES, ALERT_THRESHOLDS, alertRules } from './alerts/rules.js'
export type { AlertRule, AlertThresholds } from './alerts/rules.js'
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
  logVerifierEvents,
} from './eventLog.js'
export { FleetMetrics, InboxMetrics, LeaseMetrics, LedgerMetrics, SchedulerMetrics } from './primitiveMetrics.js'
export type { ReceivedMessage, VerifiedLedger } from './primitiveMetrics.js'
export { Metrics } from './Metrics.js'
export { OutboxMetrics } from './OutboxMetrics.js'
export { createStatusRegistry } from './createStatusRegistry.js'
export type { SystemStatus } from './createStatusRegistry.js'
