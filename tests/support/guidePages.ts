import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { codeBlocks, fileOf } from '../../scripts/guides/codeBlocks.mjs'

const root = join(import.meta.dirname, '..', '..')
const FOLDERS = ['start', 'coding', 'concepts', 'operate', 'migrate']

/** A code block of a guide page. */
export interface GuideBlock {
  readonly page: string
  /** Line of its fence. */
  readonly line: number
  readonly language: string
  readonly code: string
  /** File name that the block states. */
  readonly file: string | undefined
  /** Reason why it cannot be executed. */
  readonly notRun?: string
  /** Context that a fragment needs. */
  readonly given?: string
}

/** Reads every block of the README and of the guide folders. */
export async function readGuideBlocks(): Promise<readonly GuideBlock[]> {
  const pages = ['README.md', 'examples/README.md']
  for (const folder of FOLDERS) {
    const names = await readdir(join(root, 'docs', folder))
    pages.push(...names.filter((name) => name.endsWith('.md')).map((name) => `docs/${folder}/${name}`))
  }
  const blocks: GuideBlock[] = []
  for (const page of pages) {
    for (const block of codeBlocks(await readFile(join(root, page), 'utf8'))) {
      blocks.push(Object.assign(block, { page, file: fileOf(block) }))
    }
  }
  return blocks
}
