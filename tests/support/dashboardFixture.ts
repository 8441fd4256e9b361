import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { builtPath } from './builtPath.js'
import { closePages, launchBrowser } from './browser.js'
import { createTestDatabase, type TestDatabase } from './database.js'
import { createKey, openHttpFixture, TOKEN, type HttpFixture, type HttpFixtureOptions } from './httpFixture.js'

/** A dashboard page and the errors of its browser. */
export interface OpenPage {
  readonly page: Page
  /** Returns errors and warnings of the console and of scripts, refusals by the content security policy included. */
  readonly browserErrors: () => string[]
  /** Opens a page by its address after `#/` and waits for its heading. */
  readonly goTo: (path: string) => Promise<void>
}

/** The built dashboard, a real server and database, and a real browser. */
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

  /** Creates a token of this person, with every scope. */
  async tokenOf(owner: string): Promise<string> {
    const { key } = await createKey(this.db, { owner, scopes: ['ingest', 'read', 'audit', 'operate'] })
    return key
  }

  open(token: string = TOKEN, options: BrowserContextOptions = {}): Promise<OpenPage> {
    return visit(this.browser, `${this.http.address}/#token=${encodeURIComponent(token)}`, options)
  }

  async close(): Promise<void> {
    await closePages(this.browser)
    await this.http.close()
    await this.db.drop()
  }
}

/** Opens an address in a new browser profile. */
export async function visit(browser: Browser, address: string, options: BrowserContextOptions = {}): Promise<OpenPage> {
  const context = await browser.newContext({
    locale: 'en-GB',
    timezoneId: 'UTC',
    // Turns animations off: an endless one would redraw the page all the time.
    reducedMotion: 'reduce',
    ...options,
  })
  // Timeout that is long enough for a busy machine.
  context.setDefaultTimeout(60_000)
  const page = await context.newPage()
  const browserErrors: string[] = []
  page.on('pageerror', (error) => browserErrors.push(String(error)))
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') browserErrors.push(message.text())
  })
  await page.goto(address)
  return {
    page,
    browserErrors: () => browserErrors,
    goTo: async (path) => {
      // Changes the address like a link, without a reload.
      await page.evaluate(`location.hash = ${JSON.stringify(`#/${path}`)}`)
      await page.locator('main h1').waitFor()
      await page.locator('main .skeleton').first().waitFor({ state: 'detached' })
    },
  }
}
