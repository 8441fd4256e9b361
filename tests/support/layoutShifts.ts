import type { Page, Request } from 'playwright-core'
import { expect } from 'vitest'

/**
 * Causes an event, waits until the page has read its data again, and returns each element that moved, as "element from
 * box to box". Repeats the event if the note about stale data appeared meanwhile, because this note moves the page. The
 * note appears on a busy machine.
 *
 * @param cause causes an event and resolves when the page shows it
 * @param below selects elements that new content above them may move down
 */
export async function layoutShiftsBy(page: Page, cause: () => Promise<void>, below: string): Promise<string[]> {
  const reads = { begun: 0, ended: 0 }
  const begin = (request: Request) => {
    reads.begun += isRead(request)
  }
  const end = (request: Request) => {
    reads.ended += isRead(request)
  }
  await page.evaluate(WATCH)
  page.on('request', begin)
  page.on('requestfinished', end)
  page.on('requestfailed', end)
  await cause()
  await expect.poll(() => reads.ended > 0 && reads.ended >= reads.begun).toBe(true)
  page.off('request', begin)
  page.off('requestfinished', end)
  page.off('requestfailed', end)
  const { moved, wasStale }: Shifts = await page.evaluate(READ.replace('BELOW', below))
  return wasStale ? layoutShiftsBy(page, cause, below) : moved
}

interface Shifts {
  readonly moved: string[]
  readonly wasStale: boolean
}

function isRead(request: Request): number {
  return /\/v1\/(?!stream)/.test(request.url()) ? 1 : 0
}

/**
 * Begins after two frames, because the page may have just been resized. Stops the clock of the page: an age that loses a
 * digit makes its column narrower.
 */
const WATCH = `new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => {
  const shifts = []
  const layout = new PerformanceObserver((list) => shifts.push(...list.getEntries()))
  layout.observe({ type: 'layout-shift' })
  let wasStale = document.documentElement.hasAttribute('data-stale')
  const stale = new MutationObserver(() => (wasStale = true))
  stale.observe(document.documentElement, { attributeFilter: ['data-stale'] })
  const { now } = Date
  const stoppedAt = now()
  Date.now = () => stoppedAt
  globalThis.endOfWatch = () => {
    shifts.push(...layout.takeRecords())
    layout.disconnect()
    stale.disconnect()
    Date.now = now
    return { shifts, wasStale }
  }
  resolve()
})))`

/**
 * Lists the elements that moved. A browser names at most five per shift, and none that has been removed. Leaves out
 * elements that may move: times, which change every second, the parts of a bar, whose widths show numbers, and the
 * buttons of a payment, which depend on its state. Also leaves out shifts of less than a pixel.
 */
const READ = `new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => {
  const { shifts, wasStale } = endOfWatch()
  const place = ({ x, y, width, height }) => [x, y, width, height].map(Math.round).join()
  const moved = shifts.flatMap(({ sources }) => sources).flatMap(({ node, previousRect, currentRect }) => {
    const element = node?.nodeType === Node.TEXT_NODE ? node.parentElement : node
    const isVertical = Math.abs(previousRect.x - currentRect.x) < 1
    if (!element || element.closest('time, .sharebar, .actions') || (isVertical && element.closest('BELOW'))) return []
    if (place(previousRect) === place(currentRect)) return []
    return [element.outerHTML.slice(0, 80) + ' from ' + place(previousRect) + ' to ' + place(currentRect)]
  })
  resolve({ moved, wasStale })
})))`
