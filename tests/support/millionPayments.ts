/**
 * Script for a page: changes each answer of the API into that of a database with a million payments. Counts become
 * 999,999 and 1,000,000, which are the widest texts. Lists get more rows than fit on a screen, and the list of leases
 * gets a full page of 100. Ids and amounts become long. The rest of each answer is real.
 */
export const MILLION_PAYMENTS = `{
  const sizeOfPage = () => (location.hash.startsWith('#/leases') ? 100 : 25)
  const LONG_IDS = new Set(['instructionId', 'participantId', 'lastRailReference'])
  const NO_COUNT = /(Ms|Seconds|No|Days|Max)$|^(approvals|workers|alive|silent|open|halfOpen|closed)$/
  // These counts stay small, because the dashboard subtracts them from other counts.
  const SUBTRACTED = new Set(['messages', 'cancelledLastHour'])
  const enlarge = (value, name = '') => {
    if (SUBTRACTED.has(name)) return value
    if (Array.isArray(value)) return name === 'items' ? fullPage(value) : value.map((one) => enlarge(one))
    if (typeof value === 'object' && value !== null)
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, enlarge(one, key)]))
    if (Number.isInteger(value)) return NO_COUNT.test(name) ? value : 999_999
    if (typeof value !== 'string') return value
    if (/^(sequenceId|sightings|fencingToken)$|(Count|LastHour)$/.test(name)) return '1000000'
    if (name === 'amount') return value.replace(/^[0-9]+/, '1000000')
    return LONG_IDS.has(name) ? value + '-of-a-batch-with-a-million-payments-2026-11-17' : value
  }
  const fullPage = (rows) =>
    rows.length === 0
      ? []
      : Array.from({ length: Math.max(rows.length, sizeOfPage()) }, (_, index) => {
          const row = enlarge(rows[index % rows.length])
          const unique = (id) => id?.slice(0, -4) + String(index).padStart(4, '0')
          for (const part of [row, row.item ?? {}])
            for (const id of ['outboxId', 'runId', 'timerId', 'eventId', 'findingId', 'messageId', 'resource'])
              if (part[id] !== undefined) part[id] = unique(part[id])
          return row
        })
  const enlargeEvents = () => {
    let rest = ''
    return new TransformStream({
      transform(chunk, controller) {
        const lines = (rest + chunk).split('\\n')
        rest = lines.pop()
        for (const line of lines)
          controller.enqueue((line.startsWith('data: {') ? 'data: ' + JSON.stringify(enlarge(JSON.parse(line.slice(6)))) : line) + '\\n')
      },
    })
  }
  const realFetch = globalThis.fetch
  globalThis.fetch = async (input, init) => {
    const response = await realFetch(input, init)
    const { pathname } = new URL(input, location.href)
    if (!response.ok || !pathname.startsWith('/v1/') || /[/](me|proof)$/.test(pathname)) return response
    const { status, headers } = response
    const body = pathname === '/v1/stream'
      ? response.body.pipeThrough(new TextDecoderStream()).pipeThrough(enlargeEvents()).pipeThrough(new TextEncoderStream())
      : JSON.stringify(enlarge(await response.json()))
    return new Response(body, { status, headers })
  }
}`
