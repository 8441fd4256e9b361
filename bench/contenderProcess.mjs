// A contender (bench/contender.mjs) in a process of its own, asked one task at a time.
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const CONTENDER = fileURLToPath(new URL('contender.mjs', import.meta.url))

export async function startContender({ name, module, node }, url) {
  const child = fork(CONTENDER, [module.href, url], { execPath: node })
  const waiting = new Map()
  child.on('message', ({ id, result, error }) => {
    const { resolve, reject } = waiting.get(id)
    waiting.delete(id)
    if (error === undefined) resolve(result)
    else reject(new Error(`${name}: ${error}`))
  })
  child.on('exit', (code) => {
    for (const { reject } of waiting.values()) reject(new Error(`${name} ended with ${code} while it was being asked`))
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
    if (child.exitCode !== null) return
    const ended = new Promise((resolve) => child.on('exit', resolve))
    child.kill('SIGKILL')
    await ended
  }
  return { name, ask, end }
}
