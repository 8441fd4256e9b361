import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { builtPath } from '../support/builtPath.js'
import { instrument } from '../failpoints/instrument.js'

const SOURCE = `
export class Store {
  async #read() { return await 1 }
  async sum(given) {
    const twice = async (n) => (await n) * 2
    return (await this.#read()) + (await twice(await given))
  }
}`

/** Loads the source with failpoints that record each call and return the awaited value. */
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

test('instrument puts a named failpoint before and after each await, and keeps the awaited value', async () => {
  const { code, points } = instrument(SOURCE, 'outbox/Store.js')
  expect(points).toEqual([
    'outbox/Store.js #read 1',
    'outbox/Store.js sum.twice 1',
    'outbox/Store.js sum 1',
    'outbox/Store.js sum 2',
    'outbox/Store.js sum 3',
  ])
  const { passed, Store } = await loaded(code)
  expect(await new Store().sum(Promise.resolve(20))).toBe(41)
  expect(passed).toEqual([
    'outbox/Store.js sum 1 before',
    'outbox/Store.js #read 1 before',
    'outbox/Store.js #read 1 after',
    'outbox/Store.js sum 1 after',
    'outbox/Store.js sum 2 before',
    'outbox/Store.js sum 3 before',
    'outbox/Store.js sum 3 after',
    'outbox/Store.js sum.twice 1 before',
    'outbox/Store.js sum.twice 1 after',
    'outbox/Store.js sum 2 after',
  ])
})

test('instrument finds every await of three built files, and gives each a unique name', async () => {
  for (const file of ['outbox/OutboxRelayer.js', 'inbox/InboxWorker.js', 'deployment/Installer.js']) {
    const source = await readFile(builtPath(`.modules/libs/${file}`), 'utf8')
    const { code, points } = instrument(source, file)
    expect(points.length).toBe(source.match(/\bawait\s/g)?.length)
    expect(new Set(points).size).toBe(points.length)
    expect(code.match(/failpoint\.before\(/g)?.length).toBe(points.length)
  }
})

test('instrument refuses a for-await loop, which it does not support', () => {
  expect(() => instrument('for await (const line of lines) use(line)', 'x.js')).toThrow(/for await/)
})
