import { Client } from 'pg'
import { expect, test } from 'vitest'
import { deploy } from '../../libs/deployment/index.js'
import { startPrivateServer } from '../support/server.js'
import { programsByVersion } from './programs.js'

// Leaves out performance warnings, because some functions are VOLATILE on purpose: they raise errors or lock rows.
const FINDINGS = `
  SELECT format('%s line %s: %s: %s (%s)', p.oid::regprocedure, f.lineno, f.level, f.message, f.detail) AS finding
  FROM pg_proc p
  JOIN pg_language l ON l.oid = p.prolang AND l.lanname = 'plpgsql'
  LEFT JOIN LATERAL (
    SELECT t.tgrelid, t.tgnewtable, t.tgoldtable FROM pg_trigger t WHERE t.tgfoid = p.oid AND NOT t.tgisinternal LIMIT 1
  ) t ON true
  CROSS JOIN LATERAL plpgsql_check_function_tb(p.oid, relid => COALESCE(t.tgrelid, 0), newtable => t.tgnewtable,
    oldtable => t.tgoldtable, fatal_errors => false, other_warnings => true, extra_warnings => true,
    performance_warnings => false, security_warnings => true) f
  WHERE p.pronamespace = 'symphony'::regnamespace
  ORDER BY 1`

test.each(programsByVersion('plpgsql-check'))(
  'PostgreSQL %i: plpgsql_check finds no error and no warning in any function',
  async (_version, binaries) => {
    const server = await startPrivateServer({ binaries })
    const client = new Client(server.url)
    try {
      await deploy({ url: server.url })
      await client.connect()
      await client.query('CREATE EXTENSION plpgsql_check; SET search_path = symphony, public')
      const { rows } = await client.query<{ finding: string }>(FINDINGS)
      expect(rows.map(({ finding }) => finding)).toEqual([])
    } finally {
      await client.end()
      await server.remove()
    }
  },
)
