import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ScenarioFixture } from './ScenarioFixture.js'

export interface SpecResult {
  readonly passed: number
  /** Titles of failed tests, or one entry if no test ran or if the run failed without a failed test. */
  readonly defects: readonly string[]
  readonly output: string
}

/** Runs a spec file as a scenario. Environment variables select its long form. */
export async function runSpec(
  fixture: ScenarioFixture,
  file: string,
  env: Readonly<Record<string, string>>,
): Promise<SpecResult> {
  const report = join(fixture.folder, 'spec.json')
  const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
  const words = [vitest, 'run', file, '--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
  fixture.setPostgresVersion(process.env['SYMPHONY_TEST_POSTGRES'] ?? '18')
  const { output, exitCode } = await runProgram(fixture, words, env)
  const { passed, failed } = await readReport(report)
  const defects = failed.map((title) => `failed: ${title}`)
  if (passed + failed.length === 0) defects.push(`${file} ran no test`)
  // Vitest fails for an unhandled error although every test passed.
  else if (exitCode !== 0 && defects.length === 0) defects.push(`${file} ended with ${exitCode}, and every test passed`)
  return { passed, defects, output }
}

export interface ProgramResult {
  readonly exitCode: number | null
  readonly output: string
}

/** Runs a program of this repository from its root. The fixture kills it at the end. */
export async function runProgram(
  fixture: ScenarioFixture,
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<ProgramResult> {
  const child = spawn(process.execPath, words, {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  fixture.defer(() => child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += String(chunk)))
  await once(child, 'close')
  return { exitCode: child.exitCode, output }
}

interface Report {
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[]
  }[]
}

async function readReport(file: string): Promise<{ readonly passed: number; readonly failed: readonly string[] }> {
  const text = await readFile(file, 'utf8').catch(() => '{"testResults":[]}')
  const { testResults }: Report = JSON.parse(text)
  const tests = testResults.flatMap(({ assertionResults }) => assertionResults)
  return {
    passed: tests.filter(({ status }) => status === 'passed').length,
    failed: tests.filter(({ status }) => status !== 'passed').map(({ fullName }) => fullName),
  }
}
