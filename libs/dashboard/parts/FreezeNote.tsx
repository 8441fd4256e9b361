import type { OutboxItem } from '../../http/index.js'
import { pathTo } from '../app/router.js'
import { RelativeTime } from './RelativeTime.js'

export function FreezeNote({ freeze }: { readonly freeze: OutboxItem['freeze'] }) {
  if (freeze === null) return null
  return (
    <div class="quiet">
      Unknown since <a href={pathTo(['dispatch'])}>dispatch was frozen</a> in epoch {freeze.epochNo},{' '}
      <code>{freeze.cause}</code>, <RelativeTime at={freeze.frozenAt} />: <bdi>{freeze.reason}</bdi>
    </div>
  )
}
