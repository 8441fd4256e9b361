/**
 * Returns 50 texts that call `hacked()` if text is taken for markup. They have no spaces, so that they are valid ids.
 * A page lists 50 at once. `npm run security -- --only S9` tries 200.
 */
export function hostileTexts(from = 0): readonly string[] {
  return ALL.slice(from, from + AT_ONCE)
}

const AT_ONCE = 50

const BASIC: readonly string[] = [
  ...['script', 'ScRiPt', 'script/x', 'script/defer', 'script/src=data:,hacked()'].map(
    (tag) => `<${tag}>hacked()</script>`,
  ),
  ...['img', 'IMG', 'image', 'input/type=image', 'video', 'audio', 'embed'].map(
    (tag) => `<${tag}/src=x/onerror=hacked()>`,
  ),
  ...['svg', 'body', 'iframe', 'style', 'object/data=x'].map((tag) => `<${tag}/onload=hacked()>`),
  ...['details/open', 'marquee', 'a/href=#', 'button/autofocus'].map(
    (tag) => `<${tag}/ontoggle=hacked()/onfocus=hacked()>`,
  ),
  ...['javascript:hacked()', 'JaVaScRiPt:hacked()', 'data:text/html,<script>hacked()</script>'].flatMap((address) => [
    address,
    `<a/href="${address}">x</a>`,
    `<iframe/src="${address}"></iframe>`,
    `<form/action="${address}"><button>x</button></form>`,
  ]),
  ...[
    '"',
    "'",
    '`',
    '">',
    "'>",
    '</title>',
    '</textarea>',
    '</style>',
    '</script>',
    '-->',
    ']]>',
    '}}',
    '${',
    '{{',
  ].map((escape) => `${escape}<svg/onload=hacked()>`),
  '&lt;script&gt;hacked()&lt;/script&gt;',
  '\\u003cscript\\u003ehacked()\\u003c/script\\u003e',
  '%3Cscript%3Ehacked()%3C/script%3E',
]

/** HTML elements. Each is tried after every text of ESCAPES, which closes the surrounding markup. */
const ELEMENTS = [
  '<svg><animate/onbegin=hacked()/attributeName=x>',
  '<svg><script>hacked()</script></svg>',
  '<math><mtext></form><form><mglyph><style></math><img/src/onerror=hacked()>',
  '<input/onfocus=hacked()/autofocus>',
  '<select/onfocus=hacked()/autofocus>',
  '<textarea/onfocus=hacked()/autofocus>',
  '<body/onpageshow=hacked()>',
  '<video><source/onerror=hacked()>',
  '<audio/src/onerror=hacked()>',
  '<link/rel=stylesheet/href=x/onerror=hacked()>',
  '<base/href=javascript:hacked()//>',
  '<meta/http-equiv=refresh/content=0;url=javascript:hacked()>',
  '<object/data=javascript:hacked()>',
  '<embed/src=javascript:hacked()>',
  '<isindex/action=javascript:hacked()/type=image>',
  '<x/onpointerover=hacked()/style=position:fixed;inset:0>',
]
const ESCAPES = ['', '"/>', "'/>", '</script>', '</style>', '</title>', '-->', '<!--', '`>', '\\">']

/** Unique texts that are short enough for an id with a suffix. */
const ALL: readonly string[] = [
  ...new Set([...BASIC, ...ELEMENTS.flatMap((element) => ESCAPES.map((out) => `${out}${element}`))]),
].filter((text) => text.length <= 120)
