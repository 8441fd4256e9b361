import { randomUUID } from 'node:crypto'
import { link, mkdir, open, readFile, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { AppError } from '../core/index.js'

/**
 * A secret that is made once and kept in a file that only its owner can read. It gets its name when it is whole, so that a
 * crash leaves no half of it; of two processes that make it at once, both use the first one's.
 */
export async function keptSecret(path: string, make: () => string): Promise<string> {
  try {
    return (await readIfAny(path)) ?? (await create(path, make()))
  } catch (error) {
    throw new AppError('SECRET_UNREADABLE', `The file ${path} cannot be read or made.`, {
      cause: error,
      remedy: 'Run as the user who made it, or choose another --data-dir.',
    })
  }
}

async function create(path: string, secret: string): Promise<string> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const unfinished = `${path}.${randomUUID()}`
  try {
    const file = await open(unfinished, 'wx', 0o600)
    await file.writeFile(`${secret}\n`)
    await file.sync()
    await file.close()
    await link(unfinished, path)
    return secret
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
    return (await readIfAny(path)) ?? secret
  } finally {
    await rm(unfinished, { force: true })
  }
}

async function readIfAny(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
