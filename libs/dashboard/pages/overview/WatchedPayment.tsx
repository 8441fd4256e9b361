import { pathTo } from '../../app/router.js'
import { readTimeline } from '../../data/api.js'
import { mentions } from '../../data/items.js'
import { useResource } from '../../data/useResource.js'
import { Icon } from '../../parts/Icon.js'
import { ResourceView } from '../../parts/ResourceView.js'
import { Panel } from '../../parts/Panel.js'
import { StateTag } from '../../parts/StateTag.js'
import { styleOfState } from '../../parts/states.js'

export function WatchedPayment({ outboxId }: { readonly outboxId: string }) {
  const timeline = useResource({
    key: outboxId,
    load: (signal) => readTimeline(outboxId, signal),
    concerns: (event) => mentions(event, outboxId),
    everyMs: 2_000,
  })
  return (
    <Panel title="Your payment">
      <ResourceView from={timeline} lines={2}>
        {({ item }) => (
          <div class="watched">
            <StateTag state={item.state} />
            {item.outcomeUnknown ? <StateTag state="OUTCOME_UNKNOWN" /> : null}
            <span class="quiet">{styleOfState(item.state).meaning}</span>
            <a class="button" href={pathTo(['payments', outboxId])}>
              Open its timeline <Icon name="link" />
            </a>
          </div>
        )}
      </ResourceView>
    </Panel>
  )
}
