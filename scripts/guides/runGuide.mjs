// Runs the files and commands of a guide in a shell, in a folder with the package installed and with a fresh
// PostgreSQL. The output of a command must match the text below it; `…` matches anything.
import { spawn } from 'node:child_process'
import { chmod, mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { codeBlocks, continuedPage, fileOf } from './codeBlocks.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..')
const LONGEST_MS = 120_000

/** Runs a guide. Returns the problems as sentences; none if every command printed its documented output. */
export async function runGuide({ page, folder, serverUrl, env = {} }) {
  const blocks = await blocksOf(page)
  await installPackage(folder)
  for (const block of blocks) {
    const file = fileOf(block)
    if (file !== undefined) await writeFile(join(folder, file), `${block.code}\n`)
  }
  const steps = blocks.filter(({ language, notRun }) => language === 'console' && notRun === undefined)
  const setup = blocks.flatMap((block) => (block.setup === undefined ? [] : [block.setup])).join('\n')
  await writeFile(join(folder, 'guide.sh'), script(setup, steps))
  const ended = await run(folder, {
    PATH: `${join(folder, 'bin')}:${process.env.PATH}`,
    HOME: folder,
    ADMIN_URL: serverUrl,
    DATABASE: serverUrl.slice(serverUrl.lastIndexOf('@') + 1),
    ...env,
  })
  return { steps: steps.length, problems: await problemsOf({ folder, steps, ended }) }
}

/** Returns the blocks of the page, preceded by those of the page that it continues. */
async function blocksOf(page) {
  const text = await readFile(join(root, page), 'utf8')
  const earlier = continuedPage(text)
  const blocks = codeBlocks(text).map((block) => Object.assign(block, { page }))
  return earlier === undefined ? blocks : [...(await blocksOf(join(dirname(page), earlier))), ...blocks]
}

async function installPackage(folder) {
  await mkdir(join(folder, 'node_modules'), { recursive: true })
  await mkdir(join(folder, 'bin'))
  await symlink(root, join(folder, 'node_modules', 'symphony-pg'))
  await symlink(join(root, 'node_modules', 'pg'), join(folder, 'node_modules', 'pg'))
  await symlink(join(root, 'node_modules', '@symphony-pg'), join(folder, 'node_modules', '@symphony-pg'))
  await symlink(join(root, 'bin', 'symphony'), join(folder, 'bin', 'symphony'))
  const psql = fileURLToPath(new URL('psql.mjs', import.meta.url))
  await writeFile(join(folder, 'bin', 'psql'), `#!/bin/sh\nexec "${process.execPath}" "${psql}" "$@"\n`)
  await chmod(join(folder, 'bin', 'psql'), 0o755)
}

/** Builds one shell script for the whole page, so that a block sees variables exported by earlier blocks. */
function script(setup, steps) {
  const lines = ['set -em', 'jobs=()', `trap 'for job in "\${jobs[@]}"; do kill -- -$job; done; wait' EXIT`]
  if (setup !== '') lines.push('{', setup, '} > setup.out 2> setup.err')
  for (const [index, { code, background, until, output, exitCode }] of steps.entries()) {
    const streams = `> ${index}.out 2> ${index}.err`
    lines.push(`echo ${index} > at`)
    if (background === true) lines.push('{', code, `} ${streams} &`, 'jobs+=($!)')
    else if (until !== undefined)
      lines.push('until', '{', code, `} ${streams} && grep -qF ${quoted(until)} ${index}.out; do :; done`)
    else if (exitCode !== undefined)
      lines.push('set +e', '{', code, `} ${streams}`, 'ended=$?', 'set -e', `[ $ended = ${exitCode} ]`)
    else if (isRefused(output)) lines.push('set +e', '{', code, `} ${streams}`, 'set -e')
    else lines.push('{', code, `} ${streams}`)
  }
  lines.push('echo end > at')
  return `${lines.join('\n')}\n`
}

/** Returns whether the documented output is an error, so that the command must fail. */
function isRefused(output) {
  return output?.startsWith('ERROR:') === true
}

function run(folder, env) {
  return new Promise((resolve) => {
    const child = spawn('bash', ['guide.sh'], {
      cwd: folder,
      env,
      timeout: LONGEST_MS,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let text = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += String(chunk)))
    child.on('close', (code, signal) => resolve({ code: code ?? signal, text }))
  })
}

async function problemsOf({ folder, steps, ended }) {
  const read = (name) => readFile(join(folder, name), 'utf8').catch(() => '')
  const at = (await read('at')).trim()
  if (at !== 'end') {
    const { page, line } = steps[Number(at)]
    const where = at === '' ? 'its setup' : `line ${line}`
    const name = at === '' ? 'setup' : at
    const workers = await Promise.all(
      steps.map((step, index) => (step.background === true ? read(`${index}.err`) : '')),
    )
    return [
      `${page}, ${where}: ended with ${ended.code}\n${await read(`${name}.out`)}${await read(`${name}.err`)}${ended.text}${workers.join('')}`,
    ]
  }
  const problems = []
  for (const [index, { output, page, line }] of steps.entries()) {
    if (output === undefined) continue
    const found = await read(`${index}.${isRefused(output) ? 'err' : 'out'}`)
    if (!isLike(found, output)) problems.push(`${page}, line ${line}: expected\n${output}\ngot\n${found}`)
  }
  return problems
}

/** Returns whether the text matches the documented output, in which `…` matches anything. */
export function isLike(found, shown) {
  const pattern = shown
    .trim()
    .split('…')
    .map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
    .join('[^]*?')
  return new RegExp(`^${pattern}$`).test(found.trim())
}

function quoted(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
