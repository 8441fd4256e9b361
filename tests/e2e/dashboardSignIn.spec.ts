import { createServer } from 'node:net'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { readBrowserSessions, revokeBrowserSession } from '../../libs/access/index.js'
import { readOidcOptions } from '../../libs/http/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { DashboardFixture, visit } from '../support/dashboardFixture.js'
import { rowHashes } from '../support/fingerprint.js'
import { CLIENT, IdentityProviderFixture } from '../support/identityProvider.js'
import { enqueue, eventRows } from '../support/outboxItems.js'
import { portOf } from '../support/portOf.js'
import { startRailServer } from '../support/railServer.js'

/** Tests the sign-in in a real browser with a real identity provider, which is another site than the dashboard. */

const port = await freePort()
const publicUrl = `http://127.0.0.1:${port}/`
const provider = closeAfterAll(await IdentityProviderFixture.start(publicUrl))
const { issuer } = provider
const oidc = readOidcOptions(
  {
    issuer,
    audience: 'symphony',
    jwksUrl: `${issuer}/jwks`,
    scopeClaim: 'groups',
    scopes: { 'payments.ops': ['read', 'operate'] },
    signIn: { clientId: CLIENT.id, publicUrl, name: 'Example', scope: 'openid' },
  },
  { clientSecret: CLIENT.secret },
)
const fixture = closeAfterAll(await DashboardFixture.set({ oidc, port }))
const { db, http, browser } = fixture

/** Returns a port that was free a moment ago. The provider needs the address before the server listens. */
async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const found = portOf(server)
  await new Promise((resolve) => server.close(resolve))
  return found
}

/** Signs a person in on the pages of the provider. */
async function signIn(page: Page, person: string): Promise<void> {
  await page.getByRole('button', { name: 'Sign in with Example' }).click()
  await page.locator('input[name=login]').fill(person)
  await page.locator('input[name=password]').fill('any')
  await page.getByRole('button', { name: 'Sign-in' }).click()
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.locator('.side .person', { hasText: person }).waitFor()
}

test('a person signs in, acts, loses the revoked session, signs in again and signs out', async () => {
  const item = await enqueue(db, { railType: 'idle-rail' })
  const { page, browserErrors, goTo } = await visit(browser, `${http.address}/#/payments/${item.outboxId}`)
  await signIn(page, 'alice')
  // Ignores errors up to here: the provider's pages request a font and an icon that do not exist.
  const ofProvider = browserErrors().length
  // The browser is back on the page that the person opened, and the address no longer has the provider's answer.
  expect(page.url()).toBe(`${publicUrl}#/payments/${item.outboxId}`)
  const cookies = await page.context().cookies(publicUrl)
  expect(cookies).toEqual([
    expect.objectContaining({
      name: '__Host-symphony-session',
      httpOnly: true,
      secure: true,
      sameSite: 'Strict',
      path: '/',
    }),
  ])
  expect(await page.evaluate('document.cookie')).toBe('')

  await page.getByRole('button', { name: 'Hold' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill('please wait')
  await dialog.getByRole('button', { name: 'Hold' }).click()
  await dialog.waitFor({ state: 'detached' })
  const actors = (await eventRows(db, item.outboxId)).map(({ actor }) => actor)
  expect(actors).toEqual([expect.stringMatching(/^alice via http_gateway/)])

  // A reload and a second tab use the same session. No token is in the tab.
  await page.reload()
  await page.locator('.side .person', { hasText: 'alice' }).waitFor()
  expect(await page.evaluate('sessionStorage.length')).toBe(0)
  const second = await page.context().newPage()
  await second.goto(http.address)
  await second.locator('.side .person', { hasText: 'alice' }).waitFor()
  await second.close()
  expect(browserErrors().slice(ofProvider)).toEqual([])

  const [session] = await readBrowserSessions(db.as('symphony_control'))
  expect(session).toMatchObject({ owner: 'alice', issuer, scopes: ['read', 'operate'], status: 'ACTIVE' })
  await revokeBrowserSession(db.as('symphony_control'), session!.sessionId)
  await page.getByText('The session has ended.').waitFor()

  // The provider still has its own session of the person, so it shows no form.
  await page.getByRole('button', { name: 'Sign in with Example' }).click()
  await page.locator('.side .person', { hasText: 'alice' }).waitFor()
  await goTo('holds')
  await page.locator('.side').getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('button', { name: /Yes/ }).click()
  await page.getByRole('button', { name: 'Sign in with Example' }).waitFor()
  expect(page.url()).toBe(publicUrl)
  expect(await page.context().cookies(publicUrl)).toEqual([])
  const sessions = await readBrowserSessions(db.as('symphony_control'))
  expect(sessions.map(({ status, revokedBy }) => [status, revokedBy])).toEqual([
    ['REVOKED', 'alice'],
    ['REVOKED', expect.any(String)],
  ])
})

test('a page on another port of the same host can change and read nothing, despite the cookie', async () => {
  const { page } = await visit(browser, http.address)
  await signIn(page, 'mallory-target')
  const actions = http.routes.filter(({ method, access }) => method !== 'GET' && access !== 'open')
  const addresses = actions.map(({ path }) => `${http.address}${path.replaceAll(/\{\w+\}/g, 'x')}`)
  const evil = await startRailServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>elsewhere</title>')
  })
  const before = await rowHashes(db)
  try {
    const other = await page.context().newPage()
    await other.goto(evil.url)
    const answers: unknown = await other.evaluate(`Promise.all(${JSON.stringify(addresses)}.map(async (address) => {
      const form = Object.assign(document.createElement('form'), { method: 'POST', action: address, target: 'into', enctype: 'text/plain' })
      document.body.append(Object.assign(document.createElement('iframe'), { name: 'into' }), form)
      form.submit()
      const attempts = [
        { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}' },
        { method: 'POST', credentials: 'include', headers: { 'symphony-csrf': '1' } },
        { method: 'GET', credentials: 'include' },
      ]
      return Promise.all(attempts.map((attempt) => fetch(address, attempt).then((a) => 'read ' + a.status, () => 'refused')))
    }))`)
    expect(new Set(JSON.parse(JSON.stringify(answers)).flat())).toEqual(new Set(['refused']))
    // The cookie was sent: without it the answer would be 401.
    const refused = http.logged().match(/"method":"POST".*"statusCode":403/g) ?? []
    expect(refused.length).toBeGreaterThanOrEqual(addresses.length)
    expect(await rowHashes(db)).toEqual(before)
  } finally {
    await evil.close()
  }
  await page.reload()
  await page.locator('.side .person', { hasText: 'mallory-target' }).waitFor()
})
