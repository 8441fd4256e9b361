import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** A file of rails as anyone would write it: plain JavaScript, nothing imported. `declaration` stands between braces. */
export async function writeRailsFile(folder: string, declaration: string): Promise<string> {
  const path = join(folder, 'rails.mjs')
  await writeFile(path, `export default [{ money: false, ${declaration} }]\n`)
  return path
}
