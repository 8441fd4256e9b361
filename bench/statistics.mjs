export function quantile(values, share) {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
}

export function median(values) {
  return quantile(values, 0.5)
}

/** Combines objects of the same shape into one: for each key, `pick` gets the numbers that all objects have there. */
export function combined(values, pick) {
  if (typeof values[0] !== 'object') return pick(values)
  return Object.fromEntries(
    Object.keys(values[0]).map((key) => [
      key,
      combined(
        values.map((value) => value[key]),
        pick,
      ),
    ]),
  )
}
