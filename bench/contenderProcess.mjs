// Starts a contender (bench/contender.mjs) in its own process, on this Node.js, and sends it one task at a time.
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const CONTENDER = fileURLToPath(new URL('contender.mjs', import.meta.url))

export async function startContender({ name, module, key, engine }, url) {
  const child = fork(CONTENDER, [module.href, url, ...(key === undefined ? [] : [key])])
  const waiting = new Map()
  child.on('message', ({ id, result, error }) => {
    const { resolve, reject } = waiting.get(id)
    waiting.delete(id)
    if (error === undefined) resolve(result)
    else reject(new Error(`${name}: ${error}`))
  })
  child.on('exit', (code) => {
    const needs = engine === undefined ? '' : ` It declares Node.js ${engine}; this is ${process.version}.`
    for (const { reject } of waiting.values()) reject(new Error(`${name} exited with ${code} during a task.${needs}`))
  })
  const answer = (id) => new Promise((resolve, reject) => waiting.set(id, { resolve, reject }))
  await answer('ready')
  let asked = 0
  const ask = (task, options) => {
    const id = (asked += 1)
    const answered = answer(id)
    child.send({ id, task, options })
    return answered
  }
  const end = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((resolve) => child.on('exit', resolve))
    child.kill('SIGKILL')
    await ended
  }
  return { name, ask, end }
}
