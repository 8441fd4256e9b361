import { readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'
import { bundleLibrary } from '../../scripts/bundleLibrary.mjs'
import { builtPath } from '../support/builtPath.js'
import { copyFolder } from '../support/server.js'
import { instrument } from './instrument.js'

/** Modules that change state. Killing a process that only reads leaves no trace. */
export const CORE_MODULES = ['outbox', 'repair', 'scheduler', 'inbox', 'lease', 'deployment']

export interface InstrumentedBuild {
  /** Folder of the instrumented copy, used instead of dist/. */
  readonly dist: string
  /** Names of all points. */
  readonly points: readonly string[]
}

/** Copies dist/ with a kill point at every await of the core. */
export async function buildInstrumented(folder: string): Promise<InstrumentedBuild> {
  const root = dirname(builtPath(''))
  const dist = join(folder, 'dist')
  await copyFolder(builtPath(''), dist)
  for (const name of ['node_modules', 'schema', 'package.json']) await symlink(join(root, name), join(folder, name))
  const points: string[] = []
  const libs = join(dist, '.modules', 'libs')
  for (const module of CORE_MODULES) {
    const files = await readdir(join(libs, module), { recursive: true })
    for (const name of files.filter((one) => one.endsWith('.js')).toSorted()) {
      const path = join(libs, module, name)
      const file = relative(libs, path).split(sep).join('/')
      const instrumented = instrument(await readFile(path, 'utf8'), file)
      points.push(...instrumented.points)
      await writeFile(path, instrumented.code)
    }
  }
  await bundleLibrary(dist)
  return { dist, points }
}
