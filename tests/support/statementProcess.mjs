// Reads a generated statement in its own process, and prints the error, the entries and the maximum memory.
// Argument: JSON with the path of the built module, format, options, and the start, the repeated part, the end and the
// number of bytes of the file.
const { module, options, start = '', repeated, end = '', bytes } = JSON.parse(process.argv[2])
const { readStatement } = await import(module)

async function* file() {
  yield Buffer.from(start)
  const block = Buffer.from(repeated.repeat(Math.max(1, Math.floor(65_536 / repeated.length))))
  for (let sent = 0; sent < bytes; sent += block.length) yield block
  yield Buffer.from(end)
}

const result = { entries: 0 }
try {
  const reader = readStatement(file(), options)
  for (let next = await reader.next(); next.done !== true; next = await reader.next()) {
    result.entries += next.value.length
  }
} catch (error) {
  result.code = error.code ?? error.name
  result.message = error.message
  result.remedy = error.remedy
}
// The resource usage is in KiB.
result.maxMebibytes = Math.ceil(process.resourceUsage().maxRSS / 1_024)
process.stdout.write(JSON.stringify(result))
