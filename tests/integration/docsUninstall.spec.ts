import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { runGuide } from '../../scripts/guides/runGuide.mjs'
import { startPrivateServer } from '../support/server.js'
import { ask } from '../support/standby.js'

test('the commands of uninstall.md drop the schema, the roles and the login, and nothing else', async () => {
  const server = await startPrivateServer()
  const folder = await mkdtemp(join(tmpdir(), 'symphony-guide-'))
  await chmod(folder, 0o755)
  try {
    const before = await ask(server.url, OUTSIDE)
    const { problems } = await runGuide({ page: 'docs/operate/uninstall.md', folder, serverUrl: server.url })
    expect(problems).toEqual([])
    expect(await ask(server.url, `SELECT to_regclass('public.invoices')::text AS answer`)).toBe('invoices')
    await ask(server.url, 'DROP TABLE public.invoices')
    expect(await ask(server.url, OUTSIDE)).toEqual(before)
  } finally {
    await rm(folder, { recursive: true, force: true })
    await server.remove()
  }
})

/** Query for schemas, roles, memberships, default privileges and relations of the database. */
const OUTSIDE = `SELECT json_build_object(
  'schemas', (SELECT json_agg(json_build_object('name', nspname, 'rights', nspacl::text) ORDER BY nspname) FROM pg_namespace
    WHERE nspname !~ '^pg_(temp|toast_temp)_'),
  'roles', (SELECT json_agg(rolname ORDER BY rolname) FROM pg_roles),
  'memberships', (SELECT count(*) FROM pg_auth_members),
  'defaults', (SELECT count(*) FROM pg_default_acl),
  'relations', (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace)) AS answer`
