import { Fragment } from 'preact'
import { useState } from 'preact/hooks'
import type { Alert } from '../../../http/index.js'
import { readAlerts } from '../../data/api.js'
import { staleSince } from '../../data/freshness.js'
import { useResource } from '../../data/useResource.js'
import { Icon } from '../../parts/Icon.js'
import { ResourceView } from '../../parts/ResourceView.js'
import { RelativeTime } from '../../parts/RelativeTime.js'
import { pageForAlert } from './pageForAlert.js'

const TONES = { critical: 'bad', warning: 'warn' } as const

export function Alerts({ alerts }: { readonly alerts: readonly Alert[] }) {
  const raised = alerts.toSorted((a, b) => rank(a) - rank(b))
  return (
    <section class="stack tight" aria-label="Alerts">
      {raised.map((alert) => (
        <RaisedAlert key={alert.name} alert={alert} />
      ))}
      {raised.length > 0 ? null : staleSince.value !== null ? (
        <p class="all-quiet">
          <span class="state tone-warn">
            <Icon name="unknown" />
            Unknown
          </span>
          <span class="quiet">No alert rule can be evaluated without the database.</span>
        </p>
      ) : (
        <p class="all-quiet">
          <span class="state tone-good">
            <Icon name="done" />
            No alerts firing
          </span>
          <span class="quiet">No alert rule is met.</span>
        </p>
      )}
      <AlertRules />
    </section>
  )
}

function RaisedAlert({ alert }: { readonly alert: Alert }) {
  const { name, severity, state, summary, firstLook, remedy, since, detail } = alert
  const page = pageForAlert(name)
  return (
    <div class={`note tone-${state === 'firing' ? TONES[severity] : 'wait'}`}>
      <Icon name={state === 'firing' ? 'warning' : 'info'} />
      <div>
        <p>
          <strong>{state === 'firing' ? capitalised(severity) : 'Pending'}:</strong> {summary}{' '}
          <code class="quiet">{name}</code>
        </p>
        {detail === undefined ? null : <p>{detail}</p>}
        <dl class="advice">
          <dt>Check first</dt>
          <dd>
            {firstLook}{' '}
            {page === undefined ? null : (
              <a class="nowrap" href={page.href}>
                {page.title} <Icon name="link" size={12} />
              </a>
            )}
          </dd>
          <dt>Remedy</dt>
          <dd>{remedy}</dd>
        </dl>
      </div>
      <span class="quiet">
        <RelativeTime at={since} />
      </span>
    </div>
  )
}

/** Alert rules, loaded when opened. They change only with the server's settings. */
function AlertRules() {
  const [isOpen, setIsOpen] = useState(false)
  return (
    <details onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary class="quiet">Alert rules and thresholds</summary>
      {isOpen ? <RuleList /> : null}
    </details>
  )
}

function RuleList() {
  const rules = useResource({ key: 'alert rules', load: readAlerts, concerns: () => false, everyMs: 60_000 })
  return (
    <ResourceView from={rules} lines={4}>
      {({ rules: all }) => (
        <dl class="advice">
          {all.map(({ name, severity, summary, threshold }) => (
            <Fragment key={name}>
              <dt>{capitalised(severity)}</dt>
              <dd>
                {summary} <code class="quiet">{name}</code>{' '}
                {threshold === null ? null : (
                  <code class="quiet">
                    {threshold.setting} = {threshold.value}
                  </code>
                )}
              </dd>
            </Fragment>
          ))}
        </dl>
      )}
    </ResourceView>
  )
}

function rank({ state, severity }: Alert): number {
  return (state === 'firing' ? 0 : 10) + (severity === 'critical' ? 0 : 1)
}

function capitalised(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1)
}
