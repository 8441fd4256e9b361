import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { builtPath } from '../support/builtPath.js'

const folder = builtPath('dashboard')
const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => /\.\w+$/.test(name))
/** Returns the gzipped size of these files together. */
const bytesOf = (names: readonly string[]) =>
  names.reduce((bytes, name) => bytes + gzipSync(readFileSync(join(folder, name)), { level: 9 }).length, 0)
const textOf = (name: string) => readFileSync(join(folder, name), 'utf8')

/** Files that the first page does not load: licences, charts, payment dialogs and pages that are opened rarely. */
const LATER =
  /uPlot|actions|BulkDialog|Contradictions|Databases|Dispatch|EnqueueForm|Inbox|KindChoices|Leases|LICENSES|Limits|Rail|[Rr]econciliation|ReplaceDialog|Scheduler|SeriesPanel|SignIn|TextField|Worker/

/** Maximum gzipped size of the files that a phone fetches for the first page. */
const FIRST_BYTES_MAX = 48 * 1_024
const BYTES_MAX = 104 * 1_024

describe('the built dashboard', () => {
  // The layout tests of the browser therefore need one theme only.
  test('has a dark theme that changes only colours', () => {
    const styles = files
      .filter((name) => name.endsWith('.css'))
      .map(textOf)
      .join('')
    expect(styles).not.toContain('prefers-color-scheme')
    const dark = [...styles.matchAll(/[^{}]*data-theme[^{}]*\{([^}]*)\}/g)].flatMap(([, body = '']) => body.split(';'))
    expect(dark.length).toBeGreaterThan(20)
    // The bundler adds --lightningcss-light and --lightningcss-dark for color-scheme.
    const colour = /^(color-scheme:dark|--lightningcss-\w+:.*|--[\w-]+:(#[0-9a-f]{3,8}|rgba?\([^)]*\)))?$/
    expect(dark.filter((line) => !colour.test(line))).toEqual([])
  })

  test('consists of exactly the listed files', () => {
    expect(files.map((name) => name.replace(/-[\w-]{8}\./, '-HASH.')).toSorted()).toEqual([
      'LICENSES.txt',
      'assets/BulkDialog-HASH.js',
      'assets/Contradictions-HASH.js',
      'assets/Databases-HASH.js',
      'assets/Dispatch-HASH.js',
      'assets/EnqueueForm-HASH.js',
      'assets/Inbox-HASH.js',
      'assets/KindChoices-HASH.js',
      'assets/Leases-HASH.js',
      'assets/Limits-HASH.js',
      'assets/Rail-HASH.js',
      'assets/Reconciliation-HASH.js',
      'assets/ReplaceDialog-HASH.js',
      'assets/Scheduler-HASH.js',
      'assets/SeriesPanel-HASH.js',
      'assets/SignIn-HASH.js',
      'assets/TextField-HASH.js',
      'assets/Worker-HASH.js',
      'assets/WorkerHistory-HASH.js',
      'assets/actions-HASH.js',
      'assets/index-HASH.css',
      'assets/index-HASH.js',
      'assets/mark-HASH.svg',
      'assets/reconciliation-HASH.css',
      'assets/uPlot-HASH.css',
      'assets/uPlot.esm-HASH.js',
      'index.html',
    ])
  })

  test('stays below its size limits, in total and for the first load', () => {
    const first = files.filter((name) => !LATER.test(name))
    expect(first.length).toBe(files.length - 23)
    expect(bytesOf(first)).toBeGreaterThan(10_000)
    expect(bytesOf(first)).toBeLessThan(FIRST_BYTES_MAX)
    expect(bytesOf(files)).toBeLessThan(BYTES_MAX)
  })

  test('refers to no other origin', () => {
    for (const name of files) {
      const origins = textOf(name).match(/(?:https?:)?\/\/[a-z0-9-]+\.[a-z]{2,}/gi) ?? []
      // XML namespaces at www.w3.org are names, which a browser does not fetch.
      expect(origins.filter((origin) => !origin.endsWith('//www.w3.org'))).toEqual([])
    }
  })

  test('has no inline script, event handler or style, and no data: URL', () => {
    const page = textOf('index.html')
    expect(page).not.toMatch(/<script(?![^>]*\ssrc=)/)
    expect(page).not.toMatch(/<style|\sstyle=|\son\w+=/)
    expect(page).not.toMatch(/data:/)
  })
})
