import { readdir } from 'node:fs/promises'
import { delimiter, isAbsolute, join } from 'node:path'

/** Where systems keep the programs of each PostgreSQL version, which is in the name of a folder. */
const VERSIONED = [
  { parent: '/usr/lib/postgresql', name: /^(\d+)$/, bin: 'bin' }, // Debian, Ubuntu
  { parent: '/usr', name: /^pgsql-(\d+)$/, bin: 'bin' }, // Red Hat, from postgresql.org
  { parent: '/usr/libexec', name: /^postgresql(\d+)$/, bin: '' }, // Alpine
  { parent: '/opt/homebrew/opt', name: /^postgresql@(\d+)$/, bin: 'bin' }, // Homebrew on Apple silicon
  { parent: '/usr/local/opt', name: /^postgresql@(\d+)$/, bin: 'bin' }, // Homebrew on Intel
  { parent: '/Applications/Postgres.app/Contents/Versions', name: /^(\d+)$/, bin: 'bin' },
]

/** Folders that may hold `initdb` and `postgres`: known places with the newest version first, then the search path. */
export async function systemBinFolders(searchPath: string): Promise<readonly string[]> {
  const known: { readonly version: number; readonly folder: string }[] = []
  for (const { parent, name, bin } of VERSIONED) {
    for (const entry of await namesIn(parent)) {
      const match = name.exec(entry)
      if (match !== null) known.push({ version: Number(match[1]), folder: join(parent, entry, bin) })
    }
  }
  const newestFirst = known.toSorted((a, b) => b.version - a.version).map(({ folder }) => folder)
  // A relative entry would make the choice depend on where the command was typed.
  return [...new Set([...newestFirst, ...searchPath.split(delimiter).filter((folder) => isAbsolute(folder))])]
}

async function namesIn(folder: string): Promise<readonly string[]> {
  return readdir(folder).catch(() => [])
}
