import type { ItemsEvent } from '../../http/index.js'
import type { ServerEvent } from './sse.js'

/** Returns the changed payments of an event; undefined for other events. */
export function itemsOf({ type, data }: ServerEvent): ItemsEvent | undefined {
  if (type !== 'items') return undefined
  const items: ItemsEvent = JSON.parse(data)
  return items
}

export function mentions(event: ServerEvent, outboxId: string): boolean {
  const told = itemsOf(event)
  return told !== undefined && (told.truncated || told.items.some((item) => item.outboxId === outboxId))
}
