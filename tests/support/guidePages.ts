import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { codeBlocks, fileOf } from '../../scripts/guides/codeBlocks.mjs'

const root = join(import.meta.dirname, '..', '..')
const FOLDERS = ['start', 'coding', 'concepts', 'operate', 'migrate']

/** A block of code of a page that readers work with. */
export interface GuideBlock {
  readonly page: string
  /** Where its fence stands. */
  readonly line: number
  readonly language: string
  readonly code: string
  /** The file that it says it is. */
  readonly file: string | undefined
  /** Why it cannot be executed. */
  readonly notRun?: string
  /** What a fragment supposes. */
  readonly given?: string
}

/** Every block of the README and of the pages in the guides' folders. */
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
