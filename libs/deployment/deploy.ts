import { openLoginDatabase } from '../db/index.js'
import { enterSchemaAsOwner } from './db.js'
import { readSchemaFiles } from './schemaFiles.js'

export interface DeployOptions {
  readonly url: string
  /** @default `symphony` */
  readonly schema?: string
}

export async function deploy({ url, schema = 'symphony' }: DeployOptions): Promise<void> {
  const { cluster, objects, privileges } = readSchemaFiles()
  const database = openLoginDatabase({ url, schema })
  try {
    await database.transaction('READ WRITE', async (tx) => {
      for (const file of cluster) await tx.query(file.sql)
      await enterSchemaAsOwner(tx, schema)
      for (const file of [...objects, privileges]) await tx.query(file.sql)
    })
  } finally {
    await database.close()
  }
}
