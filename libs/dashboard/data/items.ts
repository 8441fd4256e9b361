import type { ItemsEvent } from '../../http/index.js'
import type { ServerEvent } from './sse.js'

/** Returns the changed payments of an event; undefined for other events. */
export function itemsOf({ type, data }: ServerEvent): ItemsEvent | undefined {
  if (type !== 'items') return undefined
  const items: ItemsEvent = JSON.parse(data)
  return items
}

export function mentions(event: ServerEvent, outboxId: string): boolean {
  const changed = itemsOf(event)
  return changed !== undefined && (changed.truncated || changed.items.some((item) => item.outboxId === outboxId))
}
