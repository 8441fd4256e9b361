/** Where `npm run debian` found the programs of one test file. */
export function programsOf(name: string): Readonly<Record<string, string>> {
  const found = process.env['SYMPHONY_TEST_PROGRAMS']
  if (found === undefined) throw new Error('expected SYMPHONY_TEST_PROGRAMS: run npm run debian')
  const programs: Readonly<Record<string, Readonly<Record<string, string>>>> = JSON.parse(found)
  return programs[name] ?? {}
}
