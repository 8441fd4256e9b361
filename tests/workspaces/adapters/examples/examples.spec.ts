import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createTestDatabase } from '../../../support/database.js'
import { compileExample, runExample } from '../../../support/examples.js'

const folder = import.meta.dirname

test.for(['orm-transaction.mjs', 'fastify-plugin.mjs', 'express-middleware.mjs', 'nestjs/main.ts'])(
  'the example %s prints its documented output',
  async (name) => {
    await using db = await createTestDatabase({ schema: 'symphony' })
    const file = join(folder, name)
    const program = name.endsWith('.ts') ? await compileExample(file) : { file, remove: async () => {} }
    try {
      const { stdout, expected } = await runExample(file, program.file, db.url)
      expect(stdout).toBe(expected)
    } finally {
      await program.remove()
    }
  },
)
