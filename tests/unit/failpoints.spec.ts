import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { builtPath } from '../support/builtPath.js'
import { instrument } from '../support/failpoints/instrument.js'

const SOURCE = `
export class Store {
  async #read() { return await 1 }
  async sum(given) {
    const twice = async (n) => (await n) * 2
    return (await this.#read()) + (await twice(await given))
  }
}`

/** Passes everything on, and notes what it passed. */
async function loaded(source: string): Promise<{ passed: string[]; Store: new () => { sum(n: unknown): unknown } }> {
  const passed: string[] = []
  const failpoint = {
    before: (name: string) => void passed.push(`${name} before`),
    after: (name: string, value: unknown) => {
      passed.push(`${name} after`)
      return value
    },
  }
  const name = 'failpointOfThisTest'
  Object.assign(globalThis, { [name]: failpoint })
  const { Store }: { Store: new () => { sum(n: unknown): unknown } } = await import(
    /* @vite-ignore */ `data:text/javascript,${encodeURIComponent(source.replaceAll('failpoint.', `globalThis.${name}.`))}`
  )
  return { passed, Store }
}

test('each await, nested ones too, is a point before and after, named after its function; the value passes through', async () => {
  const { code, points } = instrument(SOURCE, 'room/Store.js')
  expect(points).toEqual([
    'room/Store.js #read 1',
    'room/Store.js sum.twice 1',
    'room/Store.js sum 1',
    'room/Store.js sum 2',
    'room/Store.js sum 3',
  ])
  const { passed, Store } = await loaded(code)
  expect(await new Store().sum(Promise.resolve(20))).toBe(41)
  expect(passed).toEqual([
    'room/Store.js sum 1 before',
    'room/Store.js #read 1 before',
    'room/Store.js #read 1 after',
    'room/Store.js sum 1 after',
    'room/Store.js sum 2 before',
    'room/Store.js sum 3 before',
    'room/Store.js sum 3 after',
    'room/Store.js sum.twice 1 before',
    'room/Store.js sum.twice 1 after',
    'room/Store.js sum 2 after',
  ])
})

test('none is missing: the build has as many points as awaits, and each has a name of its own', async () => {
  for (const file of ['outbox/OutboxRelayer.js', 'inbox/InboxWorker.js', 'deployment/Installer.js']) {
    const source = await readFile(builtPath(`libs/${file}`), 'utf8')
    const { code, points } = instrument(source, file)
    expect(points.length).toBe(source.match(/\bawait\s/g)?.length)
    expect(new Set(points).size).toBe(points.length)
    expect(code.match(/failpoint\.before\(/g)?.length).toBe(points.length)
  }
})

test('a kind of await that is not known is refused, not passed over', () => {
  expect(() => instrument('for await (const line of lines) use(line)', 'x.js')).toThrow(/for await/)
})
