// Writers side by side, under one setting and then another, in turn: rates of each in every round.

/**
 * Each setting may `prepare`, and `write`s item number n, or several from n on if it says how many (`size`). Every number is
 * given once.
 */
export async function interleavedRates({ writers, rounds, roundSeconds, settings, print }) {
  const rates = Object.fromEntries(Object.keys(settings).map((name) => [name, []]))
  let next = 1
  for (let round = 0; round <= rounds; round++) {
    const order = Object.keys(settings)
    // Whoever comes second finds larger tables.
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
      // The first round is for warming up.
      if (round === 0) continue
      rates[name].push(perSecond)
      print(`round ${round}, ${name}: ${Math.round(perSecond)} a second`)
    }
  }
  return rates
}
