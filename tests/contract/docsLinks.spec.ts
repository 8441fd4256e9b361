import { mkdtemp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { buildSite } from '../../scripts/site/build.mjs'
import { deadLinksOfRepository, deadLinksOfSite } from '../../scripts/site/links.mjs'

const root = join(import.meta.dirname, '..', '..')

let folder: string
let files: string[]
let dead: string[]
let site: string
let pages: number
beforeAll(async () => {
  ;({ files, dead } = await deadLinksOfRepository(root))
  folder = await mkdtemp(join(tmpdir(), 'symphony-site-'))
  site = join(folder, 'site')
  ;({ pages } = await buildSite({ root, out: site }))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test('every link in a Markdown page leads to an existing file and heading', () => {
  expect(files).toEqual(expect.arrayContaining(['README.md', 'docs/README.md', 'examples/README.md', 'SECURITY.md']))
  expect(dead).toEqual([])
})

test('the documentation site has no dead link, no inline script and no inline style', async () => {
  const built = await deadLinksOfSite(site)
  expect(built.pages).toHaveLength(pages)
  expect(built.dead).toEqual([])

  const html = await readFile(join(site, 'concepts', 'outbox.html'), 'utf8')
  expect(html).toContain(`content="default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'`)
  expect(html).not.toMatch(/<style|<script(?! src="\.\.\/site\.js" defer><\/script>)| on[a-z]+="| style="/)
})

test.for([
  ['cancel a payment', 'operate/stop-cancel-return.html#cancel-a-payment'],
  ['refund', 'operate/stop-cancel-return.html#record-a-return-or-refund'],
  ['order paid', 'start/faq.html#how-does-my-order-learn-that-it-was-paid'],
])('the search of the site finds “%s” in a heading', async ([words = '', address]) => {
  const index = await readFile(join(site, 'search-index.js'), 'utf8')
  const entries: string[][] = JSON.parse(/\[.*\]/s.exec(index)?.[0] ?? '[]')
  const found = entries.filter(([, heading = '']) =>
    words.split(' ').every((word) => heading.toLowerCase().includes(word)),
  )
  expect(found.map(([, , at]) => at)).toContain(address)
})

test('docs/README.md links every page of the documentation', async () => {
  const index = await readFile(join(root, 'docs', 'README.md'), 'utf8')
  // docs/reference/package.md lists the API reports; the index does not.
  const listed = files.filter(
    (file) => file.startsWith('docs/') && !/^docs\/(?:README\.md$|reference\/api\/)/.test(file),
  )
  expect(listed.filter((file) => !index.includes(`(${file.slice('docs/'.length)}`))).toEqual([])
})

test('docs/decisions.md lists the heading of every decision', async () => {
  const index = await readFile(join(root, 'docs/decisions.md'), 'utf8')
  const decisions = join(root, 'docs/internals/decisions')
  const texts = await Promise.all((await readdir(decisions)).map((name) => readFile(join(decisions, name), 'utf8')))
  const headings = texts.flatMap((text) => [...text.matchAll(/^## (.+)$/gm)].map(([, heading = '']) => heading))
  expect(headings.length).toBeGreaterThan(80)
  expect(headings.filter((heading) => !index.includes(heading))).toEqual([])
})

test('the link checks report dead links in Markdown pages and in the built site', async () => {
  const example = join(folder, 'planted')
  await mkdir(join(example, 'docs'), { recursive: true })
  await writeFile(
    join(example, 'README.md'),
    '# One\n\n[a](docs/two.md) [b](docs/two.md#here) [c](#one) [d](https://x.example)\n',
  )
  await writeFile(
    join(example, 'docs', 'two.md'),
    '# Two\n\n## Here\n\n[e](three.md), [f](../README.md#two)\n\n| [g](#there) | ![h](h.png) |\n| --- | --- |\n',
  )
  expect((await deadLinksOfRepository(example)).dead).toEqual([
    'docs/two.md: three.md (no such file)',
    'docs/two.md: ../README.md#two (no such heading)',
    'docs/two.md: #there (no such heading)',
    'docs/two.md: h.png (no such file)',
  ])

  await writeFile(join(example, 'index.html'), '<h1 id="one"><a href="#one"><a href="#two"><img src="three.png">')
  expect((await deadLinksOfSite(example)).dead).toEqual([
    'index.html: #two (no such anchor)',
    'index.html: three.png (no such file)',
  ])
})

test('the site build fails on a page that is in no section', async () => {
  await mkdir(join(folder, 'lost', 'docs'), { recursive: true })
  await writeFile(join(folder, 'lost', 'docs', 'lonely.md'), '# Lonely\n')
  const building = buildSite({ root: join(folder, 'lost'), out: join(folder, 'lost', 'site'), sections: [] })
  await expect(building).rejects.toThrow('docs/lonely.md')
})
