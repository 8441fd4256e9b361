import { openLoginDatabase } from '../../libs/db/index.js'
import { readCatalog, type Catalog } from '../../libs/deployment/catalog.js'

/** Everything in a schema, as the doctor reads it. */
export async function catalogOf(url: string, schema: string): Promise<Catalog> {
  const database = openLoginDatabase({ url, schema })
  try {
    return await database.transaction('READ ONLY', (tx) => readCatalog(tx, schema))
  } finally {
    await database.close()
  }
}

/** Names alone, sorted. */
export function namesIn(catalog: Catalog, kind: string): readonly string[] {
  return [...(catalog.get(kind)?.keys() ?? [])].toSorted()
}
