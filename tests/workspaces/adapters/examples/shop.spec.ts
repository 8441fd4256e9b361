import { execFile, spawn } from 'node:child_process'
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestDatabase } from '../../../support/database.js'

const root = join(import.meta.dirname, '..', '..', '..', '..')
const run = promisify(execFile)

/** Folder with the program and its contract, compiled strictly. Express and Prisma are installed there. */
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(import.meta.dirname, 'compiled-'))
  for (const name of ['app.ts', 'contracts.ts'])
    await copyFile(join(root, 'examples', 'shop', name), join(folder, name))
  const extended = join(root, 'tsconfig.base.json')
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ extends: extended, include: ['*.ts'] }))
  await run(process.execPath, [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', folder])
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test('app.ts commits an order with its payment, or rolls both back for a refused payload', async () => {
  await using db = await createTestDatabase({ schema: 'symphony' })
  const till = await db.createLogin('till', { roles: ['symphony_ingest'], inherit: true })
  await db.queryNoRole(`CREATE TABLE public.orders (id text PRIMARY KEY, state text NOT NULL)`)
  await db.queryNoRole(`INSERT INTO public.orders VALUES ('O-1', 'new'), ('O-2', 'new')`)
  await db.queryNoRole(`GRANT SELECT, UPDATE ON public.orders TO "${till.name}"`)

  const env = { ...process.env, APP_URL: till.url, PORT: '0' }
  const child = spawn(process.execPath, [join(folder, 'app.js')], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    const port = await new Promise<string>((resolve) => {
      let written = ''
      child.stdout.on('data', (chunk) => {
        written += String(chunk)
        const [, found] = /port: (\d+)/.exec(written) ?? []
        if (found !== undefined) resolve(found)
      })
    })
    const pay = (id: string, amount: unknown) =>
      fetch(`http://127.0.0.1:${port}/orders/${id}/pay`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ amount, iban: 'DE89370400440532013000' }),
      })
    const first = await pay('O-1', '12.50')
    expect([first.status, await first.json()]).toEqual([201, { outboxId: expect.any(String), state: 'PENDING' }])
    expect((await pay('O-1', '12.50')).status).toBe(200)
    expect((await pay('O-2', 12.5)).status).toBe(500)
  } finally {
    child.kill()
  }
  const { rows } = await db.queryNoRole('SELECT id, state FROM public.orders ORDER BY id')
  expect(rows).toEqual([
    { id: 'O-1', state: 'paying' },
    { id: 'O-2', state: 'new' },
  ])
  const items = await db.queryNoRole('SELECT instruction_id FROM payment_outbox_pending')
  expect(items.rows).toEqual([{ instruction_id: 'O-1' }])
})
