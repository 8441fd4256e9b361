/**
 * One hostile input, or a valid one that looks like it: JSON text for one field of an instruction. hostileAnswers.json
 * lists the answer of each entry point.
 */
export interface HostileInput {
  /** Unique name, and the key of its answers. */
  readonly name: string
  readonly field: InstructionField
  /** Text in place of the field's value. It need not be valid JSON. */
  readonly text: string
}

/** `instruction` replaces the whole instruction. */
export const INSTRUCTION_FIELDS = [
  'instruction',
  'instructionId',
  'participantId',
  'idempotencyKey',
  'railType',
  'payload',
  'notBefore',
  'ordered',
] as const
export type InstructionField = (typeof INSTRUCTION_FIELDS)[number]

const quoted = (text: string) => JSON.stringify(text)
const raw = (escape: string) => `"${escape}"`

/** Values for each of the four ids. */
const IDS: Readonly<Record<string, string>> = {
  'an empty text': quoted(''),
  'a space': quoted(' '),
  'a space inside': quoted('a b'),
  'a space before': quoted(' a'),
  'a space behind': quoted('a '),
  '129 characters': quoted('x'.repeat(129)),
  '5,000 characters': quoted('x'.repeat(5_000)),
  'a tab': quoted('a\tb'),
  'a line feed': quoted('a\n'),
  'a carriage return': quoted('a\r'),
  'a header of its own': quoted('a\r\nSet-Cookie: b'),
  'an escape sequence': quoted('\u001B[2J'),
  'a bell': quoted('\u0007'),
  'a delete character': quoted('a\u007F'),
  'a control character beyond ASCII': quoted('a\u0085'),
  'a NUL': raw('a\\u0000b'),
  'half a surrogate': raw('\\ud800'),
  'the other half': raw('a\\udc00'),
  'both halves the wrong way round': raw('\\udc00\\ud800'),
  'a letter beyond ASCII': quoted('é'),
  'a Cyrillic a': quoted('\u0430cme'),
  'fullwidth letters': quoted('ａｃｍｅ'),
  'a no-break space': quoted('a\u00A0'),
  'a zero-width space': quoted('\u200B'),
  'a byte order mark': quoted('\uFEFFa'),
  'a right-to-left override': quoted('a\u202Eb'),
  'a line separator': quoted('a\u2028'),
  'an emoji': quoted('😀'),
  'a combining accent': quoted('e\u0301'),
  'a whole number': '1',
  'a fraction': '1.5',
  'minus zero': '-0',
  true: 'true',
  null: 'null',
  'a list': '[]',
  'a list of one': '["a"]',
  'an object': '{}',
  'an object that calls itself text': '{"toString":"a","length":1}',
  // These are valid ids and are stored unchanged.
  'the first and last printable character': quoted('!~'),
  '128 characters': quoted('x'.repeat(128)),
  'a statement': quoted("';DROP/**/TABLE/**/payment_outbox_pending;--"),
  'a condition': quoted("1'OR'1'='1"),
  'a dollar quote': quoted('$$;SELECT/**/1;$$'),
  'a placeholder': quoted('$1'),
  'a template': quoted('${process.env.HOME}'),
  'another template': quoted('{{7*7}}'),
  'a path': quoted('../../../../etc/passwd'),
  'a script': quoted('<script>alert(1)</script>'),
  'a command': quoted('$(reboot)`reboot`|reboot'),
  'a backslash': quoted('\\'),
  'a percent code': quoted('%00%0d%0a'),
  'a prototype': quoted('__proto__'),
  'a constructor': quoted('constructor'),
  'the word null': quoted('null'),
  'the word NaN': quoted('NaN'),
  'a negative number': quoted('-1'),
  'a LIKE pattern': quoted('%_%'),
  'a format': quoted('%s%n%x'),
  'a lookup': quoted('${jndi:ldap://x/a}'),
}

const nested = (depth: number, open: string, close: string) => `${open.repeat(depth)}${close.repeat(depth)}`
const payloadOf = (member: string) => `{"a": ${member}}`

/** Values for a member of a payload. */
const MEMBERS: Readonly<Record<string, string>> = {
  'a number of 22 digits': '1000000000000000000000',
  'minus a number of 22 digits': '-1000000000000000000000',
  'ten to the 21': '1e21',
  'ten to the 400': '1e400',
  'ten to the 131071': '1e131071',
  'minus ten to the 131071': '-1e131071',
  'ten to the minus 21': '1e-21',
  'ten to the minus 400': '1e-400',
  'zero with 16,383 decimals': '0e-16383',
  'a number of 400 digits': '9'.repeat(400),
  'a number of 10,000 digits': '9'.repeat(10_000),
  'a fraction of 60 digits': `0.${'1'.repeat(60)}`,
  'digits that a double cannot hold': '9007199254740993',
  'minus zero': '-0',
  'minus zero with a point': '-0.0',
  'a leading zero': '01',
  'a plus': '+1',
  'a point first': '.5',
  'a point last': '5.',
  'an exponent of nothing': '1e',
  hexadecimal: '0x10',
  underscores: '1_000',
  NaN: 'NaN',
  Infinity: 'Infinity',
  undefined: 'undefined',
  True: 'True',
  nil: 'nil',
  nothing: '',
  'a NUL': '"\\u0000"',
  'a NUL among letters': '"abc\\u0000def"',
  'half a surrogate': '"\\ud800"',
  'the other half': '"\\udfff"',
  'half a surrogate before a letter': '"\\ud83dx"',
  'an escape that is none': '"\\x41"',
  'half an escape': '"\\u12"',
  'an escape at the end': '"\\"',
  'a control character as it is': '"\u0001"',
  'a line end as it is': '"a\nb"',
  'a text that does not end': '"abc',
  'a text in single quotes': "'abc'",
  'a list that does not end': '[1, 2',
  'a list with a comma too many': '[1, 2,]',
  'a list with a hole': '[1,,2]',
  'an object that does not end': '{"b": 1',
  'an object with a comma too many': '{"b": 1,}',
  'a key without quotes': '{b: 1}',
  'a key that is a number': '{1: 1}',
  'a key without a value': '{"b"}',
  'a key with two colons': '{"b":: 1}',
  'a key twice': '{"b": 1, "b": 2}',
  'a key twice in two spellings': '{"b": 1, "\\u0062": 2}',
  'a key __proto__': '{"__proto__": {"admin": true}}',
  'a key __proto__ in another spelling': '{"\\u005f_proto__": 1}',
  'a key with a NUL': '{"\\u0000": 1}',
  'a key of half a surrogate': '{"\\ud800": 1}',
  'a comment': '1 /* 2 */',
  'a line comment': '1 // 2',
  'depth 33 of lists': nested(32, '[', ']'),
  'depth 33 of objects': `${'{"b":'.repeat(32)}1${'}'.repeat(32)}`,
  'depth 200': nested(199, '[', ']'),
  'depth 5,000': nested(5_000, '[', ']'),
  'brackets that never close': '['.repeat(30_000),
  '65,537 bytes': quoted('x'.repeat(65_529)),
  '65,537 bytes of two-byte characters': quoted('é'.repeat(32_764) + 'x'),
  '100,000 bytes': quoted('x'.repeat(100_000)),
  '22,000 numbers': `[${'1,'.repeat(21_999)}1]`,
  // These are valid payloads.
  'depth 32 of lists': nested(31, '[', ']'),
  '65,536 bytes': quoted('x'.repeat(65_528)),
  'a number just below ten to the 21': '999999999999999900000',
  'ten to the minus 20': '1e-20',
  'a fraction': '0.1',
  'the largest whole number of a double': '9007199254740992',
  'an emoji': '"😀"',
  'an emoji in two escapes': '"\\ud83d\\ude00"',
  'a control character in an escape': '"\\u0001\\u001f"',
  markup: '"<svg/onload=alert(1)>"',
  'a statement': `"'; DROP TABLE payment_outbox_pending; --"`,
  'a key constructor': '{"constructor": {"prototype": {"admin": true}}}',
  'a key toString': '{"toString": 1, "valueOf": null, "toJSON": 2, "then": 3}',
  'an empty key': '{"": 1}',
  'a key with spaces': '{" a ": 1}',
  'a direction override': '"\\u202e"',
  'a noncharacter': '"\\uffff"',
  'two accents and their letter': '"e\\u0301\\u0302"',
}

/** Values for the whole payload. */
const PAYLOADS: Readonly<Record<string, string>> = {
  'a list': '[]',
  'a text': '"{}"',
  'a number': '1',
  true: 'true',
  null: 'null',
  nothing: '',
  'half an object': '{',
  'an object and a half': '{}}',
  'two objects': '{}{}',
  'an object and a word': '{} x',
  'a byte order mark': '\uFEFF{}',
  'a comment': '/**/{}',
  'a member twice': '{"amount": "1", "amount": "2"}',
  'a member __proto__': '{"__proto__": 1}',
  'an empty object': '{}',
}

const TIMES: Readonly<Record<string, string>> = {
  'a word': '"tomorrow"',
  now: '"now"',
  infinity: '"infinity"',
  'a day': '"2026-01-31"',
  'a time without an offset': '"2026-01-31T12:00:00"',
  'a time of day': '"12:00"',
  'a number': '1767225600',
  'a number of milliseconds': '1767225600000',
  'an impossible day': '"2026-02-30T12:00:00Z"',
  'an impossible month': '"2026-13-01T12:00:00Z"',
  'an impossible hour': '"2026-01-31T25:00:00Z"',
  'the year 10000': '"10000-01-01T00:00:00Z"',
  'a year of five digits': '"+010000-01-01T00:00:00Z"',
  'the year 0': '"0000-01-01T00:00:00Z"',
  'two thousand years ago': '"0026-01-31T12:00:00Z"',
  'in seven thousand years': '"9026-01-31T12:00:00Z"',
  'ten decimals': '"2026-01-31T12:00:00.1234567890Z"',
  'a zone by name': '"2026-01-31T12:00:00 Europe/Berlin"',
  'a statement': `"2026-01-31T12:00:00Z'; DROP TABLE x; --"`,
  'a list': '["2026-01-31T12:00:00Z"]',
  'an object': '{"$date": "2026-01-31T12:00:00Z"}',
  null: 'null',
  true: 'true',
  'an empty text': '""',
  'a leap second': '"2026-12-31T23:59:60Z"',
  'an offset beyond all': '"2026-01-31T12:00:00+99:99"',
  'digits of another script': '"２０２６-01-31T12:00:00Z"',
  'a time': '"2026-01-31T12:00:00Z"',
  'a time with an offset': '"2026-01-31T12:00:00.123456+05:45"',
}

const SWITCHES: Readonly<Record<string, string>> = {
  'the word true': '"true"',
  'the word false': '"false"',
  'the word yes': '"yes"',
  'the number 1': '1',
  'the number 0': '0',
  null: 'null',
  'a list': '[]',
  'a list of true': '[true]',
  'an object': '{}',
  'an empty text': '""',
  'a capital': 'True',
  on: 'on',
  'a number beyond all': '1e400',
  true: 'true',
  false: 'false',
}

const SOUND = '"instructionId": "i", "participantId": "p", "idempotencyKey": "k", "railType": "r", "payload": {}'
const member = (name: string, text: string) => `{${SOUND}, ${quoted(name)}: ${text}}`
const without = (name: string) => `{${SOUND.replace(new RegExp(`"${name}": [^,]+,? ?`), '').replace(/, $/, '')}}`

/** Values for the whole instruction. */
const INSTRUCTIONS: Readonly<Record<string, string>> = {
  nothing: '',
  'a space': ' ',
  null: 'null',
  'a list': '[]',
  'a list of it': `[{${SOUND}}]`,
  'a text': '"{}"',
  'a number': '1',
  true: 'true',
  'an empty object': '{}',
  'half of it': `{${SOUND}`,
  'it and a half': `{${SOUND}}}`,
  'it twice': `{${SOUND}}{${SOUND}}`,
  'it and a word': `{${SOUND}} x`,
  'a comma too many': `{${SOUND},}`,
  'a comment': `{${SOUND} /* x */}`,
  'a byte order mark': `\uFEFF{${SOUND}}`,
  'single quotes': `{${SOUND}}`.replaceAll('"', "'"),
  'keys without quotes': `{${SOUND}}`.replaceAll(/"(\w+)":/g, '$1:'),
  'a form': 'instructionId=i&participantId=p&railType=r&payload={}',
  XML: '<instruction><id>i</id></instruction>',
  'a NUL behind it': `{${SOUND}}\u0000`,
  'a NUL before it': `\u0000{${SOUND}}`,
  ...Object.fromEntries(
    ['instructionId', 'participantId', 'railType', 'payload'].map((name) => [`no ${name}`, without(name)]),
  ),
  ...Object.fromEntries(
    [
      'notbefore',
      'not_before',
      'Ordered',
      'amount',
      'id',
      'ID',
      'instructionID',
      'instruction_id',
      'payload ',
      '',
      'constructor',
      'toString',
      'hasOwnProperty',
      '$where',
      'traceContext',
      'sequenceId',
      'outboxId',
      'state',
    ].map((name) => [`an unknown field ${quoted(name)}`, member(name, '"x"')]),
  ),
  'a field __proto__': member('__proto__', '{"railType": "x"}'),
  ...Object.fromEntries(
    ['instructionId', 'participantId', 'railType', 'idempotencyKey'].map((name) => [
      `${name} twice`,
      member(name, '"other"'),
    ]),
  ),
  'payload twice': member('payload', '{"b": 1}'),
  'itself in a field': member('payload2', `{${SOUND}}`),
}

function inputsOf(field: InstructionField, table: Readonly<Record<string, string>>, words = ''): HostileInput[] {
  return Object.entries(table).map(([what, text]) => ({ name: `${field}${words}: ${what}`, field, text }))
}

const memberInputs = Object.entries(MEMBERS).map(([what, text]): [string, string] => [what, payloadOf(text)])
const deeperInputs = Object.entries(MEMBERS)
  .filter(([what]) => !/^(?:depth|\d+,|brackets)/.test(what))
  .map(([what, text]): [string, string] => [what, `{"list": [{"deep": ${text}}, 2], "amount": "1"}`])

export const HOSTILE_INPUTS: readonly HostileInput[] = [
  ...inputsOf('instruction', INSTRUCTIONS),
  ...inputsOf('instructionId', IDS),
  ...inputsOf('participantId', IDS),
  ...inputsOf('idempotencyKey', IDS),
  ...inputsOf('idempotencyKey', { 'a key as redrives have them': quoted('a~redrive~1') }),
  ...inputsOf('railType', IDS),
  ...inputsOf('payload', PAYLOADS),
  ...inputsOf('payload', Object.fromEntries(memberInputs), ', a member'),
  ...inputsOf('payload', Object.fromEntries(deeperInputs), ', in a list'),
  ...inputsOf('notBefore', TIMES),
  ...inputsOf('ordered', SWITCHES),
]
