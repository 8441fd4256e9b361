import { useEffect, useRef, useState } from 'preact/hooks'
import { send, problemOf, type ShownProblem } from '../data/client.js'
import { Dialog } from './Dialog.js'
import { ProblemNote } from './ProblemNote.js'

interface ExportProps {
  /** Path of the list in the API. */
  readonly path: string
  readonly query?: Readonly<Record<string, string | undefined>>
}

const FORMATS = [
  ['csv', 'CSV, for spreadsheets'],
  ['ndjson', 'NDJSON, for programs'],
] as const

/** Button that downloads all rows that match the filters of a list. */
export function ExportButton({ path, query = {} }: ExportProps) {
  const [isOpen, setIsOpen] = useState(false)
  return (
    <>
      <button type="button" class="button" onClick={() => setIsOpen(true)}>
        Export
      </button>
      {isOpen ? <ExportDialog path={path} query={query} onClose={() => setIsOpen(false)} /> : null}
    </>
  )
}

function ExportDialog({ path, query, onClose }: ExportProps & { readonly onClose: () => void }) {
  const [running, setRunning] = useState<string | null>(null)
  const [problem, setProblem] = useState<ShownProblem>()
  const left = useRef(new AbortController())
  // Closing the dialog aborts the download, which ends the export on the server.
  useEffect(() => () => left.current.abort(), [])
  const download = async (format: string) => {
    setProblem(undefined)
    setRunning(format)
    try {
      const response = await send(path, { query: { ...query, format }, signal: left.current.signal })
      save(await response.blob(), `${path.split('/').at(-1)}.${format}`)
      onClose()
    } catch (error) {
      if (left.current.signal.aborted) return
      setRunning(null)
      setProblem(problemOf(error))
    }
  }
  return (
    <Dialog title="Export" onClose={onClose}>
      <p>The file has all rows of the list under its filters, as you may see them.</p>
      {problem === undefined ? null : <ProblemNote problem={problem} />}
      <div class="actions">
        {FORMATS.map(([format, words]) => (
          <button
            key={format}
            type="button"
            class="button"
            disabled={running !== null}
            onClick={() => void download(format)}
          >
            {running === format ? 'Downloading' : words}
          </button>
        ))}
      </div>
    </Dialog>
  )
}

function save(file: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(file)
  link.download = name
  link.click()
  URL.revokeObjectURL(link.href)
}
