import { existsSync } from 'node:fs'
import { lstat, mkdir, mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import registryChromium from '@sparticuz/chromium'
import { chromium, type Browser } from 'playwright-core'

declare global {
  var symphonyTestBrowser: Promise<Browser> | undefined
}

/** Returns the browser of this process, for one spec file after the other. It ends with the process. */
export function launchBrowser(): Promise<Browser> {
  // Kept in `globalThis`, because each spec file loads its own copy of this module.
  return (globalThis.symphonyTestBrowser ??= launch())
}

/** Closes every page of the browser at the end of a spec file. */
export async function closePages(browser: Browser): Promise<void> {
  await Promise.all(browser.contexts().map((context) => context.close()))
}

/**
 * Starts a browser from the package registry, so that x86-64 machines need no installed browser. Other processors need
 * Debian's `chromium-headless-shell` or `chromium`. The sandbox is off, because containers and root do not allow it.
 * Only our own pages are opened.
 */
async function launch(): Promise<Browser> {
  if (process.arch !== 'x64') return launchInstalled()
  const folder = await unpackedBrowser()
  return chromium.launch({
    executablePath: join(folder, 'chromium'),
    args: ARGUMENTS,
    // The bundled fonts make pages look alike on each machine.
    env: { ...process.env, FONTCONFIG_PATH: join(folder, 'fonts'), HOME: folder },
  })
}

const ARGUMENTS = [
  '--no-sandbox',
  '--disable-gpu',
  '--in-process-gpu',
  '--no-zygote',
  '--disable-dev-shm-usage',
  '--font-render-hinting=none',
]

function launchInstalled(): Promise<Browser> {
  const executablePath = INSTALLED.find((path) => existsSync(path))
  if (executablePath === undefined) {
    throw new Error(
      `no ${INSTALLED.join(' or ')}, one of which browser tests need on ${process.arch}: ` +
        'apt-get install chromium-headless-shell',
    )
  }
  return chromium.launch({ executablePath, args: [...ARGUMENTS, '--disable-background-networking'] })
}

/** Browsers of Debian, preferred first. The headless shell has no window system, so that it uses less CPU per page. */
const INSTALLED = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium']

/**
 * Unpacks the browser once per user and version, because this takes seconds and hundreds of megabytes. The folder is
 * renamed when complete, because several test files look for it at once.
 */
async function unpackedBrowser(): Promise<string> {
  const version = pinnedVersion()
  const { uid } = userInfo()
  const folder = join(tmpdir(), `symphony-test-chromium-${version}-${uid}`)
  if (await isOurs(folder, uid)) return folder
  const draft = await mkdtemp(`${folder}-`)
  await unpackInto(draft)
  try {
    await rename(draft, folder)
  } catch (error) {
    // Another process was faster, and its folder is complete.
    await rm(draft, { recursive: true, force: true })
    if (!(await isOurs(folder, uid))) throw error
  }
  return folder
}

/** Reads the version from our manifest, because the package does not export its own. */
function pinnedVersion(): string {
  const manifest: { devDependencies: Record<string, string> } = createRequire(import.meta.url)('../../package.json')
  return manifest.devDependencies['@sparticuz/chromium'] ?? 'unknown'
}

/** Sets TMPDIR during the call, because the package unpacks into the temporary folder. */
async function unpackInto(folder: string): Promise<void> {
  const before = process.env['TMPDIR']
  process.env['TMPDIR'] = folder
  try {
    await mkdir(folder, { recursive: true })
    await registryChromium.executablePath()
    await writeFile(join(folder, 'fonts', 'fonts.conf'), fontsFile())
  } finally {
    if (before === undefined) delete process.env['TMPDIR']
    else process.env['TMPDIR'] = before
  }
}

/** Accepts neither a link nor a folder of another user, because the name can be guessed. */
async function isOurs(folder: string, uid: number): Promise<boolean> {
  try {
    const found = await lstat(folder)
    return found.isDirectory() && (uid === -1 || found.uid === uid) && (await stat(join(folder, 'chromium'))).isFile()
  } catch {
    return false
  }
}

/**
 * Returns a font configuration that replaces the one in the package, which names folders of AWS Lambda. The path of the
 * bundled fonts is relative, because `unpackedBrowser` renames their folder.
 */
function fontsFile(): string {
  return [
    '<?xml version="1.0"?>',
    '<fontconfig>',
    '<dir prefix="relative">.</dir>',
    '<dir>/usr/share/fonts</dir>',
    '<cachedir prefix="xdg">fontconfig</cachedir>',
    ...['system-ui', 'sans-serif'].map((wanted) => preferring(wanted, 'Open Sans')),
    ...['ui-monospace', 'monospace'].map((wanted) => preferring(wanted, 'DejaVu Sans Mono')),
    '</fontconfig>',
    '',
  ].join('\n')
}

function preferring(wanted: string, family: string): string {
  return `<alias binding="same"><family>${wanted}</family><prefer><family>${family}</family></prefer></alias>`
}
