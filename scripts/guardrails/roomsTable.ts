/** What a room may import, as written in rooms.md. */
export interface Room {
  readonly imports: ReadonlySet<string> | 'every door'
  readonly importsTypes: ReadonlySet<string>
}

/** The door of the package, libs/index.ts, stands outside all rooms. */
export const PACKAGE_DOOR = '(package)'

export function readRoomsTable(markdown: string): ReadonlyMap<string, Room> {
  const rows = markdown.split('\n').filter((line) => /^\| [a-z]+ \|/.test(line) && !line.startsWith('| room |'))
  const rooms = rows.map((row) => {
    const [, name = '', imports = '', importsTypes = ''] = row.split('|').map((cell) => cell.trim())
    return [
      name,
      { imports: imports === 'every door' ? imports : names(imports), importsTypes: names(importsTypes) },
    ] as const
  })
  return new Map<string, Room>([...rooms, [PACKAGE_DOOR, { imports: 'every door', importsTypes: new Set() }]])
}

function names(cell: string): ReadonlySet<string> {
  return new Set(
    cell
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== ''),
  )
}
