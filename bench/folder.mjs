import { chmod, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A folder for a server that goes when it is over. Open to pass through: root's server runs as another account, and would otherwise live elsewhere. */
export async function temporaryFolder(prefix) {
  const folder = await mkdtemp(join(tmpdir(), prefix))
  await chmod(folder, 0o711)
  return folder
}
