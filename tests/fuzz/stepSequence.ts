import * as fc from 'fast-check'

/**
 * Generates sequences of a fixed length. A failing sequence shrinks: halves are left out, then quarters, finally single
 * steps.
 *
 * `fc.array` has a random length and shrinks towards its tail, but later steps depend on earlier ones. The last cut is
 * stored beside the value, so that shrinking continues there. Shrinking is deterministic, so a path leads to the same
 * steps.
 */
export function stepSequence<S>(step: fc.Arbitrary<S>, length: number): fc.Arbitrary<readonly S[]> {
  return new StepSequence(step, length)
}

interface Cut {
  readonly size: number
  readonly from: number
}

class StepSequence<S> extends fc.Arbitrary<readonly S[]> {
  readonly #step: fc.Arbitrary<S>
  readonly #length: number

  constructor(step: fc.Arbitrary<S>, length: number) {
    super()
    this.#step = step
    this.#length = length
  }

  override generate(random: fc.Random): fc.Value<readonly S[]> {
    const steps = Array.from({ length: this.#length }, () => this.#step.generate(random, undefined).value)
    return new fc.Value<readonly S[]>(steps, undefined)
  }

  override canShrinkWithoutContext(value: unknown): value is readonly S[] {
    return Array.isArray(value)
  }

  override shrink(steps: readonly S[], cut: unknown): fc.Stream<fc.Value<readonly S[]>> {
    const start = isCut(cut) ? cut : { size: Math.max(1, Math.floor(steps.length / 2)), from: 0 }
    return fc.stream(shorter(steps, start))
  }
}

function* shorter<S>(steps: readonly S[], start: Cut): Generator<fc.Value<readonly S[]>, void> {
  for (let size = start.size; size >= 1; size = Math.floor(size / 2)) {
    const first = size === start.size ? start.from : 0
    for (const from of [...positions(first, steps.length, size), ...positions(0, first, size)]) {
      const left = [...steps.slice(0, from), ...steps.slice(from + size)]
      if (left.length < steps.length) yield new fc.Value<readonly S[]>(left, { size, from } satisfies Cut)
    }
  }
}

function positions(from: number, to: number, step: number): number[] {
  return Array.from({ length: Math.max(0, Math.ceil((to - from) / step)) }, (_, index) => from + index * step)
}

function isCut(context: unknown): context is Cut {
  return typeof context === 'object' && context !== null && 'size' in context && 'from' in context
}
