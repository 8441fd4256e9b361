import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

const RULES = {
  every: { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] },
  contrast: { type: 'rule', values: ['color-contrast'] },
}

const REPEATED = ['tbody tr', '.vlist-row', '.findings > li'].map((row) => `${row}:nth-child(n + 13)`)

/**
 * Returns findings of axe as "rule: elements". page.evaluate() injects axe, because it bypasses the page's policy.
 * Checks the first 12 rows of a list: the others look like them, and each takes time.
 */
export async function accessibilityDefects(page: Page, rules: keyof typeof RULES = 'every'): Promise<string[]> {
  if ((await page.evaluate('typeof axe')) === 'undefined') await page.evaluate(AXE)
  return page.evaluate(`(async () => {
    const options = { runOnly: ${JSON.stringify(RULES[rules])}, resultTypes: ['violations'], preload: false }
    const { violations } = await axe.run({ exclude: ${JSON.stringify(REPEATED)} }, options)
    return violations.map(({ id, nodes }) => id + ': ' + nodes.map((node) => node.html.slice(0, 160)).join(' | '))
  })()`)
}
