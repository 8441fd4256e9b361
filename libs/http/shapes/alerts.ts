import { Type, type Static } from 'typebox'
import { nullable, oneOf, shape, Timestamp } from './common.js'

/** The verdict of one alert rule. */
export const Alert = shape({
  name: Type.String(),
  state: oneOf(['ok', 'pending', 'firing'], 'pending: it holds, and not for long enough yet'),
  severity: oneOf(['info', 'warning', 'critical']),
  summary: Type.String(),
  /** What the rule compares. */
  value: nullable(Type.Number()),
  since: nullable(Timestamp),
})
export type Alert = Static<typeof Alert>

export const Alerts = shape({ alerts: Type.Array(Alert) })
export type Alerts = Static<typeof Alerts>
