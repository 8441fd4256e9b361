import { openLoginDatabase } from '../../libs/db/index.js'
import { readCatalog, type Catalog } from '../../libs/deployment/catalog.js'

/** Reads all objects of a schema, as `symphony doctor` does. */
export async function catalogOf(url: string, schema: string): Promise<Catalog> {
  const database = openLoginDatabase({ url, schema })
  try {
    return await database.transaction('READ ONLY', (tx) => readCatalog(tx, schema))
  } finally {
    await database.close()
  }
}

/** Returns the sorted names of one kind of object. */
export function namesIn(catalog: Catalog, kind: string): readonly string[] {
  return [...(catalog.get(kind)?.keys() ?? [])].toSorted()
}
