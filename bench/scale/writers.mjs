/**
 * Measures concurrent writers, alternating between settings. `prepare` of a setting runs first; `write(n)` enqueues
 * `size` items from number n on. Every number is used once. Returns the rates of each setting.
 */
export async function interleavedRates({ writers, rounds, roundSeconds, settings, print }) {
  const rates = Object.fromEntries(Object.keys(settings).map((name) => [name, []]))
  let next = 1
  for (let round = 0; round <= rounds; round++) {
    const order = Object.keys(settings)
    // Alternates the order, because a later setting has larger tables.
    if (round % 2 === 1) order.reverse()
    for (const name of order) {
      const { prepare = async () => {}, write, size = 1 } = settings[name]
      await prepare()
      const startedMs = performance.now()
      let written = 0
      const writer = async () => {
        while (performance.now() - startedMs < roundSeconds * 1_000) {
          const from = next
          next += size
          await write(from)
          written += size
        }
      }
      await Promise.all(Array.from({ length: writers }, writer))
      const perSecond = written / ((performance.now() - startedMs) / 1_000)
      // Round 0 is a warm-up.
      if (round === 0) continue
      rates[name].push(perSecond)
      print(`round ${round}, ${name}: ${Math.round(perSecond)} a second`)
    }
  }
  return rates
}
