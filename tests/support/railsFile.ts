import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Writes a rails file in plain JavaScript. `declaration` is the content of one rail object. */
export async function writeRailsFile(folder: string, declaration: string): Promise<string> {
  const path = join(folder, 'rails.mjs')
  await writeFile(path, `export default [{ money: false, ${declaration} }]\n`)
  return path
}
