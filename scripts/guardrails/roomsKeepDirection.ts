import { readFileSync } from 'node:fs'
import { posix } from 'node:path'
import type { Finding, Guardrail } from './guardrail.js'
import { isTypeScript, type SourceFile } from './repository.js'
import { PACKAGE_DOOR, readRoomsTable, type Room } from './roomsTable.js'
import { importsOf, type ImportedModule } from './typescriptImports.js'

/** Imports follow the table in rooms.md, through doors only. */
export const roomsKeepDirection: Guardrail = {
  name: 'rooms import in the direction of rooms.md, through index.ts',
  check: (repository) => {
    const rooms = readRoomsTable(readFileSync(new URL('rooms.md', import.meta.url), 'utf8'))
    const sources = repository.filter((file) => isTypeScript(file) && file.path.startsWith('libs/'))
    return [
      ...sources.flatMap((file) =>
        importsOf(file).flatMap((imported) => {
          const defect = defectOf(file, imported, rooms)
          return defect === undefined ? [] : [{ file: file.path, line: imported.line, message: defect }]
        }),
      ),
      ...exportedDoors(repository.find(({ path }) => path === 'package.json')),
    ]
  },
}

function defectOf(file: SourceFile, imported: ImportedModule, rooms: ReadonlyMap<string, Room>): string | undefined {
  const from = roomOf(file.path)
  const room = rooms.get(from)
  if (room === undefined) return `${from} is not a room of scripts/guardrails/rooms.md`
  if (!imported.specifier.startsWith('.')) return undefined
  const target = posix.join(posix.dirname(file.path), imported.specifier)
  if (!target.startsWith('libs/')) return `imports ${imported.specifier}, which is outside libs/`
  const to = roomOf(target)
  if (to === from) return undefined
  if (!rooms.has(to)) return `imports ${to}, which is not a room of scripts/guardrails/rooms.md`
  const allowed =
    room.imports === 'every door' || room.imports.has(to) || (imported.typeOnly && room.importsTypes.has(to))
  if (!allowed) return `${from} may not import ${imported.typeOnly ? 'types of ' : ''}${to}`
  if (target !== `libs/${to}/index.js`) return `enters ${to} by ${posix.basename(target)} instead of its index.ts`
  return undefined
}

function roomOf(path: string): string {
  return /^libs\/([^/]+)\//.exec(path)?.[1] ?? PACKAGE_DOOR
}

/** The package's `exports` are doors too, and nothing deeper. */
function exportedDoors(manifest: SourceFile | undefined): Finding[] {
  if (manifest === undefined) return []
  const targets = [...JSON.stringify(JSON.parse(manifest.text).exports ?? {}).matchAll(/"(\.\/[^"]*\.[jt]s)"/g)]
  return targets
    .map(([, target = '']) => target)
    .filter((target) => !/^\.\/dist\/libs\/(?:[a-z]+\/)?index(?:\.d)?\.[jt]s$/.test(target))
    .map((target) => ({
      file: manifest.path,
      line: manifest.text.slice(0, manifest.text.indexOf(target)).split('\n').length,
      message: `exports ${target}, which is not the index of a room`,
    }))
}
