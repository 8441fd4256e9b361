import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { builtPath } from './builtPath.js'
import { launchBrowser } from './browser.js'
import { createTestDatabase, type TestDatabase } from './database.js'
import { createKey, openHttpFixture, TOKEN, type HttpFixture, type HttpFixtureOptions } from './httpFixture.js'

/** A page of the dashboard, and everything its browser complained about. */
export interface Visit {
  readonly page: Page
  /** Errors of the console and of scripts, refusals of the policy among them; answers of these statuses are no errors. */
  readonly complaints: () => string[]
  /** Goes to a page by its address after `#/`, and waits for its heading. */
  readonly goTo: (path: string) => Promise<void>
}

/** The built dashboard, served by a real server over a real database, in a real browser. */
export class DashboardFixture {
  readonly db: TestDatabase
  readonly http: HttpFixture
  readonly browser: Browser

  private constructor(db: TestDatabase, http: HttpFixture, browser: Browser) {
    this.db = db
    this.http = http
    this.browser = browser
  }

  static async set(options: HttpFixtureOptions = {}): Promise<DashboardFixture> {
    const [browser, db] = await Promise.all([launchBrowser(), createTestDatabase({ countBranches: false })])
    const http = await openHttpFixture(db, {
      dashboardFolder: builtPath('dashboard'),
      accessTokenOwner: 'tess',
      streamPollMs: 250,
      ...options,
    })
    return new DashboardFixture(db, http, browser)
  }

  /** A token that stands for this person, with every scope. */
  async tokenOf(owner: string): Promise<string> {
    const { key } = await createKey(this.db, { owner, scopes: ['ingest', 'read', 'audit', 'operate'] })
    return key
  }

  open(token: string = TOKEN, options: BrowserContextOptions = {}): Promise<Visit> {
    return visit(this.browser, `${this.http.address}/#token=${encodeURIComponent(token)}`, options)
  }

  async close(): Promise<void> {
    await this.browser.close()
    await this.http.close()
    await this.db.drop()
  }
}

/** Opens an address in a browser profile of its own. */
export async function visit(browser: Browser, address: string, options: BrowserContextOptions = {}): Promise<Visit> {
  const context = await browser.newContext({ locale: 'en-GB', timezoneId: 'UTC', ...options })
  // Patience for a busy machine, as elsewhere; what is waited for usually is there at the first look.
  context.setDefaultTimeout(60_000)
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
  })
  await page.goto(address)
  return {
    page,
    complaints: () => complaints,
    goTo: async (path) => {
      // As a link does: the page stays, its address changes.
      await page.evaluate(`location.hash = ${JSON.stringify(`#/${path}`)}`)
      await page.locator('main h1').waitFor()
      await page.locator('main .skeleton').first().waitFor({ state: 'detached' })
    },
  }
}
