/**
 * Texts that would be scripts wherever text is taken for markup: each would call `hacked()`. Without spaces, so that they
 * are ids, too. Fifty of them, which differ in where the markup comes from.
 */
export const HOSTILE_TEXTS: readonly string[] = [
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
