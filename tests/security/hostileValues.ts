/** Values that only JavaScript can pass. Each use creates a new one, because some can be read only once. */
export const HOSTILE_VALUES: Readonly<Record<string, () => unknown>> = {
  undefined: () => undefined,
  'a function': () => () => 'a',
  'a symbol': () => Symbol('a'),
  'a bigint': () => 1n,
  NaN: () => Number.NaN,
  Infinity: () => Infinity,
  'minus Infinity': () => -Infinity,
  'minus zero': () => -0,
  'a number beyond 10^21': () => 1e22,
  'a number of 21 decimals': () => 1e-21,
  'a Date': () => new Date(0),
  'the last Date there is': () => new Date(8.64e15),
  'the first Date there is': () => new Date(-8.64e15),
  'a Date of the year 0': () => new Date('0000-01-01T00:00:00Z'),
  'a Date that is none': () => new Date(Number.NaN),
  'a Map': () => new Map([['a', 1]]),
  'a Set': () => new Set([1]),
  'a RegExp': () => /a/,
  'an Error': () => new Error('a'),
  'a Promise': () => Promise.resolve('a'),
  bytes: () => new Uint8Array([1]),
  'a Buffer': () => Buffer.from('a'),
  'an instance': () =>
    new (class Payment {
      amount = '1'
    })(),
  'a text object': () => Object('a'),
  'a number object': () => Object(1),
  'a proxy': () => new Proxy({}, {}),
  'a proxy of a list': () => new Proxy([], {}),
  'a getter': () => Object.defineProperty({}, 'a', { enumerable: true, get: () => 1 }),
  'a getter that throws': () =>
    Object.defineProperty({}, 'a', {
      enumerable: true,
      get: () => {
        throw new Error('looked at')
      },
    }),
  'a hidden member': () => Object.defineProperty({}, 'a', { enumerable: false, value: 1 }),
  'a member that is a symbol': () => ({ [Symbol('a')]: 1 }),
  'a member __proto__': () => JSON.parse('{"__proto__": {"admin": true}}'),
  'a member toJSON that is a function': () => ({ toJSON: () => 'a' }),
  itself: () => {
    const cycle: Record<string, unknown> = {}
    cycle['a'] = cycle
    return cycle
  },
  'a list in itself': () => {
    const list: unknown[] = []
    list.push(list)
    return list
  },
  'a graph that unfolds without end': () => {
    let graph: unknown = ['x']
    for (let level = 0; level < 30; level += 1) graph = [graph, graph]
    return graph
  },
  'a list with a hole': () => Array(1),
  'a list of two billion holes': () => Array(2 ** 31),
  'a list with a further property': () => Object.assign([1], { further: 1 }),
  'a list of another class': () => new (class extends Array {})(),
  'half a surrogate': () => '\uD800',
  'a NUL': () => 'a\0b',
  'a text of a megabyte': () => 'x'.repeat(1_048_576),
  'a list 40 deep': () => {
    let deep: unknown = 1
    for (let level = 0; level < 40; level += 1) deep = [deep]
    return deep
  },
}
