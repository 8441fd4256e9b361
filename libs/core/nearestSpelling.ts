/** The known word that was probably meant: at most two slips away, and less than half of the word wrong. */
export function nearestSpelling(word: string, known: Iterable<string>): string | undefined {
  let nearest: string | undefined
  let slipsOfNearest = Math.min(SLIPS_MAX, Math.ceil(word.length / 2) - 1) + 1
  for (const candidate of known) {
    const slips = countSlips(word.toLowerCase(), candidate.toLowerCase())
    if (slips < slipsOfNearest) {
      nearest = candidate
      slipsOfNearest = slips
    }
  }
  return nearest
}

const SLIPS_MAX = 2

/** Letters inserted, dropped or exchanged to get from one word to the other. */
function countSlips(from: string, to: string): number {
  let above = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row]
    for (let column = 1; column <= to.length; column += 1) {
      const exchanged = (above[column - 1] ?? 0) + (from[row - 1] === to[column - 1] ? 0 : 1)
      current.push(Math.min(exchanged, (above[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1))
    }
    above = current
  }
  return above[to.length] ?? 0
}
