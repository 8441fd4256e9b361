// Summarises the rounds of `npm run bench`: medians, ratios of Symphony to the peers, CPU per item.
import { combined, median } from './statistics.mjs'

/** Measurements with a rate and its CPU time. */
const RATES = ['enqueueBatch', 'drain', 'enqueue']

/**
 * Takes medians over the rounds. A ratio divides Symphony's result by that of the faster peer; higher is better, except
 * for latencies.
 */
export function summarise(rounds, contenders) {
  const all = Object.fromEntries(
    Object.keys(rounds[0]).map((figure) => [
      figure,
      combined(
        rounds.map((each) => each[figure]).filter((value) => value !== undefined),
        median,
      ),
    ]),
  )
  const medians = { ...all }
  const cpu = {}
  for (const figure of RATES.filter((each) => all[each])) {
    medians[figure] = partOf(all[figure], 'rate')
    cpu[figure] = mapped(all[figure], cpuOf)
  }
  if (cpu.enqueueBatch && cpu.drain) {
    cpu.payment = mapped(cpu.drain, (drain, name) =>
      rounded(mapped(drain, (us, part) => us + cpu.enqueueBatch[name][part])),
    )
  }
  return { ratios: rounded(ratiosOf(medians, contenders)), medians, cpu, rounds }
}

function ratiosOf(medians, contenders) {
  const ratios = {}
  if (medians.floor && medians.drain) ratios.floor = medians.drain.symphony / medians.floor.floor
  if (contenders.length === 1) return ratios
  const namesOf = (chosen) => contenders.filter(chosen).map(({ name }) => name)
  const unkeyed = namesOf(({ key }) => key === undefined)
  const keyedPgBoss = namesOf(({ key, peer }) => key !== undefined && peer === 'pg-boss')
  for (const figure of RATES) if (medians[figure]) ratios[figure] = overBest(medians[figure], unkeyed, Math.max)
  if (medians.enqueueBatch) ratios.enqueueBatchKeyed = overBest(medians.enqueueBatch, keyedPgBoss, Math.max)
  if (medians.latency) {
    ratios.latencyP50 = overBest(partOf(medians.latency, 'p50'), unkeyed, Math.min)
    ratios.latencyP99 = overBest(partOf(medians.latency, 'p99'), unkeyed, Math.min)
  }
  if (medians.sustained) ratios.sustained = overBest(partOf(medians.sustained, 'rate'), unkeyed, Math.max)
  return ratios
}

/** Returns microseconds per item; without `server` if the system has no /proc/PID/schedstat. */
function cpuOf({ serverUs, nodeUs }) {
  return rounded({ ...(serverUs === undefined ? {} : { server: serverUs }), node: nodeUs })
}

function overBest(byName, names, pick) {
  return byName.symphony / pick(...names.filter((name) => name !== 'symphony').map((name) => byName[name]))
}

function partOf(values, part) {
  return mapped(values, (value) => value[part])
}

function mapped(values, change) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, change(value, name)]))
}

export function rounded(values) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, Number(value.toPrecision(3))]))
}
