import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { deploy, doctor } from '../../../libs/deployment/index.js'
import { CoreScenario } from '../../failpoints/CoreScenario.js'
import { buildInstrumented } from '../../failpoints/instrumentedBuild.js'
import { defineScenario } from '../../scorecard/Scenario.js'
import type { ScenarioFixture } from '../../scorecard/ScenarioFixture.js'

const RUNTIME = fileURLToPath(new URL('../../failpoints/runtime.mjs', import.meta.url))
const DEPLOY = `
const [, dist, url] = process.argv
const { deploy } = await import(dist + '/libs/deployment/index.js')
await deploy({ url })
`

/** Points that no process of this scenario reaches, with the reason. Any other unreached point is a defect. */
const NOT_PASSED: readonly { readonly points: RegExp; readonly why: string }[] = []

export default defineScenario({
  id: 'R2',
  title: 'A process is killed before and after every await of relayer, repair, scheduler, inbox, lease and deploy.',
  bar: 'Every await, except those listed with a reason; invariants I1 to I10 hold, and so do inbox effects, job runs, fencing tokens and the schema.',
  sizes: { full: { every: 1, auditEvery: 25 }, short: { every: 60, auditEvery: 25 } },
  async run(fixture, { every, auditEvery }) {
    const { dist, points } = await buildInstrumented(await fixture.subfolder('build'))
    const server = await fixture.startServer()
    const scenario = await CoreScenario.create(fixture, server, dist)
    const passed = await scenario.discover()
    const bySteps = await scenario.discoverSteps(new Set(passed))
    const defects: string[] = []
    let crashes = 0
    let missed = 0
    const crashAll = async <P>(
      who: string,
      chosen: readonly P[],
      nameOf: (one: P) => string,
      crash: (one: P) => Promise<boolean>,
    ) => {
      for (const [number, one] of chosen.entries()) {
        if (await crash(one)) crashes += 1
        else missed += 1
        fixture.progress(`${number + 1} of ${chosen.length} points of ${who}: ${nameOf(one)}`)
        if ((number + 1) % auditEvery === 0 || number + 1 === chosen.length) {
          await scenario.finishAll()
          const found = await scenario.findDefects()
          defects.push(...found.map((defect) => `after "${nameOf(one)}" or one of the ${auditEvery} before: ${defect}`))
        }
      }
    }
    await crashAll('the workers', sample(fixture, passed, every), String, (point) => scenario.crashAt(point))
    await crashAll(
      'the steps',
      sample(fixture, bySteps, every),
      ({ step, point }) => `${point}, in the step "${step}"`,
      (one) => scenario.crashStepAt(one),
    )
    const deployments = await crashDeployments(fixture, server.url, dist, every)
    const all = [...passed, ...bySteps.map(({ point }) => point), ...deployments.passed]
    const reached = new Set(all.map((point) => point.replace(/ (before|after)$/, '')))
    const unreached = points.filter((point) => !reached.has(point))
    const unexplained = unreached.filter((point) => !NOT_PASSED.some((one) => one.points.test(point)))
    return {
      figures: {
        awaitsOfTheCore: points.length,
        passed: reached.size,
        crashes: crashes + deployments.crashes,
        notPassedAgain: missed + deployments.missed,
        notPassed:
          NOT_PASSED.filter((one) => unreached.some((point) => one.points.test(point)))
            .map(({ points: { source }, why }) => `${source.replaceAll('\\', '')} (${why})`)
            .join('; ') || 'none',
      },
      defects: [
        ...defects,
        ...deployments.defects,
        ...unexplained.map((point) => `no process reaches ${point}, and NOT_PASSED gives no reason`),
      ],
    }
  },
})

interface Deployments {
  readonly passed: readonly string[]
  readonly crashes: number
  readonly missed: number
  readonly defects: readonly string[]
}

/** Crashes deployments, each on its own database. The next deployment there must succeed. */
async function crashDeployments(
  fixture: ScenarioFixture,
  serverUrl: string,
  dist: string,
  every: number,
): Promise<Deployments> {
  const log = join(fixture.folder, 'passed-by-deploy.log')
  await rm(log, { force: true })
  let databases = 0
  const attempt = async (env: Readonly<Record<string, string>>) => {
    const { url, drop } = await emptyDatabase(serverUrl, `crashed_${(databases += 1)}`)
    const child = spawn(process.execPath, ['--import', RUNTIME, '--input-type=module', '--eval', DEPLOY, dist, url], {
      env: { PATH: process.env['PATH'] ?? '', ...env },
      stdio: ['ignore', 'ignore', 'ignore'],
    })
    await once(child, 'exit')
    return { url, drop, killed: child.signalCode === 'SIGKILL' }
  }
  await (await attempt({ FAILPOINT_LOG: log })).drop()
  const passed = (await readFile(log, 'utf8')).trim().split('\n')
  let crashes = 0
  let missed = 0
  const defects: string[] = []
  const chosen = sample(fixture, passed, every)
  for (const [number, point] of chosen.entries()) {
    const { url, drop, killed } = await attempt({ FAILPOINT: point })
    if (killed) crashes += 1
    else missed += 1
    await deploy({ url })
    const { findings } = await doctor({ url })
    const wrong = findings.filter(({ severity }) => severity !== 'note')
    defects.push(...wrong.map(({ code, object }) => `deploy after "${point}": ${code} of ${object}`))
    await drop()
    fixture.progress(`${number + 1} of ${chosen.length} points of deploy: ${point}`)
  }
  return { passed, crashes, missed, defects }
}

interface EmptyDatabase {
  readonly url: string
  readonly drop: () => Promise<void>
}

async function emptyDatabase(serverUrl: string, name: string): Promise<EmptyDatabase> {
  const ask = async (text: string) => {
    const client = new Client({ connectionString: serverUrl })
    await client.connect()
    try {
      await client.query(text)
    } finally {
      await client.end()
    }
  }
  await ask(`CREATE DATABASE ${name}`)
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return { url: url.href, drop: () => ask(`DROP DATABASE ${name} WITH (FORCE)`) }
}

/** Returns every n-th point (`every`), but at least one, starting at a point chosen by the seed. */
function sample<P>(fixture: ScenarioFixture, points: readonly P[], every: number): readonly P[] {
  const first = Math.floor(fixture.randomFor('sample')() * Math.min(every, points.length))
  return points.filter((_, index) => index % every === first)
}
