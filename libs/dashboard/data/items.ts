import type { ItemsEvent } from '../../http/index.js'
import type { ServerEvent } from './sse.js'

/** What an event says about payments; undefined for an event about something else. */
export function itemsOf({ type, data }: ServerEvent): ItemsEvent | undefined {
  if (type !== 'items') return undefined
  const items: ItemsEvent = JSON.parse(data)
  return items
}

/** Whether something may have happened to this payment. */
export function mentions(event: ServerEvent, outboxId: string): boolean {
  const told = itemsOf(event)
  return told !== undefined && (told.truncated || told.items.some((item) => item.outboxId === outboxId))
}
