import { Type, type Static } from 'typebox'
import { nullable, oneOf, shape, Timestamp } from './common.js'

/** The verdict of one alert rule. */
export const Alert = shape({
  name: Type.String(),
  state: oneOf(['pending', 'firing'], 'pending: it holds, and not for long enough yet'),
  severity: oneOf(['warning', 'critical']),
  summary: Type.String(),
  firstLook: Type.String(),
  remedy: Type.String(),
  /** What the rule compares. */
  value: nullable(Type.Number()),
  since: Timestamp,
  forSeconds: Type.Number(),
  detail: Type.Optional(Type.String({ description: 'the cause, where the database names it' })),
})
export type Alert = Static<typeof Alert>

/** One alert rule, whether it fires or not. */
export const AlertRule = shape({
  name: Type.String(),
  severity: oneOf(['warning', 'critical']),
  summary: Type.String(),
  threshold: nullable(
    shape({
      setting: Type.String({ description: 'the setting that moves it' }),
      value: Type.Number({ description: 'of seconds, where the setting ends in Seconds' }),
    }),
  ),
})
export type AlertRule = Static<typeof AlertRule>

export const Alerts = shape({ alerts: Type.Array(Alert), rules: Type.Array(AlertRule) })
export type Alerts = Static<typeof Alerts>
