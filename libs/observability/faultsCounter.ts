import { Counter, type Registry } from 'prom-client'

/** One counter for the faults of every kind of worker in a process. */
export function faultsCounter(registry: Registry): Counter<'during'> {
  const known = registry.getSingleMetric('worker_faults_total')
  if (known instanceof Counter) return known
  return new Counter({
    name: 'worker_faults_total',
    help: 'What failed and was not a race.',
    labelNames: ['during'],
    registers: [registry],
  })
}
