import type { PostgresVersion } from '../support/server.js'

const VERSIONS: readonly PostgresVersion[] = [15, 16, 17, 18]

/** Returns the programs that `npm run debian` found for one test file. */
export function programsOf(name: string): Readonly<Record<string, string>> {
  const found = process.env['SYMPHONY_TEST_PROGRAMS']
  if (found === undefined) throw new Error('expected SYMPHONY_TEST_PROGRAMS: run npm run debian')
  const programs: Readonly<Record<string, Readonly<Record<string, string>>>> = JSON.parse(found)
  return programs[name] ?? {}
}

/** Returns the program folder of each PostgreSQL version. */
export function programsByVersion(name: string): readonly (readonly [PostgresVersion, string])[] {
  const programs = programsOf(name)
  return VERSIONS.flatMap((version) => {
    const folder = programs[version]
    return folder === undefined ? [] : [[version, folder] as const]
  })
}
